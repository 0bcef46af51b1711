"""Numba steps for the pieces of streams that wait, and for what is given out.

Pieces of a direction are in a list by their place in the stream, and do not overlap; all pieces of
a slice are in a list by age, and ``P_SINCE`` grows with it. ``flows`` has one row per flow at hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, step
from penstock.net import _tcp_layout as y


@step
def field(owner: Any, name: Any) -> Any:
    """The number of a direction's column."""
    return (owner & 1) * y.SIDE_FIELDS + name


@step
def link(k: Any, before: Any, after: Any, pieces: Column, ends: Column, count: Column) -> None:
    """Enter a piece into its direction between two others, and as the youngest of all."""
    owner = pieces[y.P_OWNER, k]
    pieces[y.P_NEXT, k] = after
    if before < 0:
        ends[0, owner] = k
    else:
        pieces[y.P_NEXT, before] = k
    if after < 0:
        ends[1, owner] = k
    pieces[y.P_OLDER, k], pieces[y.P_YOUNGER, k] = count[y.YOUNGEST], -1
    if count[y.YOUNGEST] >= 0:
        pieces[y.P_YOUNGER, count[y.YOUNGEST]] = k
    else:
        count[y.OLDEST] = k
    count[y.YOUNGEST] = k
    pieces[y.P_IS_HELD, k] = 1
    count[y.MEMORY] += pieces[y.P_SIZE, k] + y.OVERHEAD
    ends[2, owner] += pieces[y.P_SIZE, k] + y.OVERHEAD


@step
def unlink_first(owner: Any, pieces: Column, ends: Column, count: Column) -> None:
    """Take the first piece of a direction out."""
    k = ends[0, owner]
    ends[0, owner] = pieces[y.P_NEXT, k]
    if ends[0, owner] < 0:
        ends[1, owner] = -1
    older, younger = pieces[y.P_OLDER, k], pieces[y.P_YOUNGER, k]
    if older >= 0:
        pieces[y.P_YOUNGER, older] = younger
    else:
        count[y.OLDEST] = younger
    if younger >= 0:
        pieces[y.P_OLDER, younger] = older
    else:
        count[y.YOUNGEST] = older
    pieces[y.P_IS_HELD, k] = 0
    count[y.MEMORY] -= pieces[y.P_SIZE, k] + y.OVERHEAD
    ends[2, owner] -= pieces[y.P_SIZE, k] + y.OVERHEAD


@step
def place_of(k: Any, pieces: Column, ends: Column) -> tuple[Any, Any]:
    """The pieces of its direction between which a piece belongs."""
    before, after = np.int64(-1), ends[0, pieces[y.P_OWNER, k]]
    tail = ends[1, pieces[y.P_OWNER, k]]
    if tail >= 0 and pieces[y.P_STOP, tail] <= pieces[y.P_START, k]:
        return tail, np.int64(-1)
    while after >= 0 and pieces[y.P_START, after] < pieces[y.P_START, k]:
        before, after = after, pieces[y.P_NEXT, after]
    return before, after


@step
def insert(
    owner: Any, start: Any, stop: Any, place: Any, size: Any, time: Any, pieces: Column, ends: Column,
    count: Column,
) -> None:  # fmt: skip
    """Hold what is new of a segment: bytes that wait already have come first and win."""
    at, before, after = start, np.int64(-1), ends[0, owner]
    tail = ends[1, owner]
    if tail >= 0 and pieces[y.P_STOP, tail] <= start:
        before, after = tail, np.int64(-1)
    while after >= 0 and pieces[y.P_START, after] < stop and at < stop:
        if pieces[y.P_START, after] > at:
            until = pieces[y.P_START, after]
            before = _hold(owner, at, until, start, place, size, time, before, after, pieces, ends, count)
        at = max(at, pieces[y.P_STOP, after])
        before, after = after, pieces[y.P_NEXT, after]
    if at < stop:
        _hold(owner, at, stop, start, place, size, time, before, after, pieces, ends, count)


@step
def _hold(
    owner: Any, begin: Any, end: Any, start: Any, place: Any, size: Any, time: Any, before: Any, after: Any,
    pieces: Column, ends: Column, count: Column,
) -> Any:  # fmt: skip
    """Hold a part of the segment that begins at ``start``; gives its number."""
    k = count[y.PIECES]
    count[y.PIECES] += 1
    if k >= pieces.shape[1]:  # `Work.save` refuses the result; memory stays whole
        return before
    lead, youngest = begin - start, count[y.YOUNGEST]
    pieces[y.P_OWNER, k], pieces[y.P_START, k], pieces[y.P_STOP, k] = owner, begin, end
    pieces[y.P_PLACE, k] = place + lead
    pieces[y.P_SIZE, k] = max(0, min(size - lead, end - begin))
    pieces[y.P_TIME, k] = pieces[y.P_SINCE, k] = time
    if youngest >= 0:
        pieces[y.P_SINCE, k] = max(time, pieces[y.P_SINCE, youngest])
    link(k, before, after, pieces, ends, count)
    return k


@step
def advance(owner: Any, bytes_: Any, flows: Column) -> None:
    """Move a stream's place forward."""
    row = owner >> 1
    flows[row, field(owner, y.NEXT)] += bytes_
    flows[row, field(owner, y.NEXT_SEQ)] = (flows[row, field(owner, y.NEXT_SEQ)] + bytes_) & 0xFFFF_FFFF


@step
def miss(owner: Any, bytes_: Any, why: Any, flows: Column) -> None:
    """Remember bytes that are missing before what comes next."""
    if bytes_ > 0:
        flows[owner >> 1, field(owner, y.GAP)] += bytes_
        flows[owner >> 1, field(owner, y.WHY)] = why


@step
def give_out(owner: Any, place: Any, size: Any, time: Any, flows: Column, out: Column, count: Column) -> None:
    """Write a row: bytes at the stream's place, and what is missing before them."""
    row, n = owner >> 1, count[y.OUTS]
    count[y.OUTS] += 1
    if n >= out.shape[1]:  # as in `_hold`
        return
    out[y.O_OWNER, n], out[y.O_PLACE, n], out[y.O_SIZE, n], out[y.O_TIME, n] = owner, place, size, time
    out[y.O_OFFSET, n] = flows[row, field(owner, y.NEXT)]
    out[y.O_GAP, n], out[y.O_WHY, n] = flows[row, field(owner, y.GAP)], flows[row, field(owner, y.WHY)]
    out[y.O_CONNECTION, n] = flows[row, y.CONNECTION]
    flows[row, field(owner, y.GAP)] = flows[row, field(owner, y.WHY)] = 0


@step
def deliver(
    owner: Any, start: Any, stop: Any, place: Any, size: Any, time: Any, flows: Column, out: Column,
    count: Column,
) -> None:  # fmt: skip
    """Give out what a part that begins at or before the stream's place has behind it."""
    lead = flows[owner >> 1, field(owner, y.NEXT)] - start
    length = stop - start - lead
    if length <= 0:
        return
    kept = max(0, min(size - lead, length))
    if kept > 0:
        give_out(owner, place + lead, kept, time, flows, out, count)
    advance(owner, length, flows)
    miss(owner, length - kept, y.NOT_CAPTURED, flows)


@step
def drain(owner: Any, flows: Column, pieces: Column, ends: Column, out: Column, count: Column) -> None:
    """Give out the pieces that wait for nothing any more."""
    k = ends[0, owner]
    while k >= 0 and pieces[y.P_START, k] <= flows[owner >> 1, field(owner, y.NEXT)]:
        unlink_first(owner, pieces, ends, count)
        deliver(
            owner, pieces[y.P_START, k], pieces[y.P_STOP, k], pieces[y.P_PLACE, k], pieces[y.P_SIZE, k],
            pieces[y.P_TIME, k], flows, out, count,
        )  # fmt: skip
        k = ends[0, owner]


@step
def skip_gap(
    owner: Any, why: Any, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    """Give up the bytes before the first piece that waits."""
    gap = pieces[y.P_START, ends[0, owner]] - flows[owner >> 1, field(owner, y.NEXT)]
    miss(owner, gap, why, flows)
    advance(owner, gap, flows)
    drain(owner, flows, pieces, ends, out, count)
