"""The numba kernels that put TCP segments in order."""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _tcp_layout as y
from penstock.net._tcp_pieces import (
    deliver,
    drain,
    field,
    give_out,
    insert,
    link,
    miss,
    place_of,
    skip_gap,
)

_MASK, _HALF = 0xFFFF_FFFF, 1 << 31


@bounded("len(order) >= len(rows)", "len(rows) == 0 or (0 <= rows.min() and rows.max() < len(numbers))")
@kernel
def number(rows: Column, numbers: Column, order: Column) -> int:
    """Number rows as they first occur, in place; ``order`` is the way back. Returns how many there are."""
    count = 0
    for i in range(len(rows)):
        if numbers[rows[i]] < 0:
            numbers[rows[i]], order[count] = count, rows[i]
            count += 1
        rows[i] = numbers[rows[i]]
    return count


# `most_pieces` and `most_out` derive how many pieces and rows there can be.
@bounded(
    "pieces.shape[0] == y.PIECE and pieces.shape[1] >= y.most_pieces(held, len(segments))",
    "out.shape[0] == y.OUT and out.shape[1] >= y.most_out(held, len(segments), len(flows))",
    "flows.shape[1] == len(y.FLOW_VALUES) and ends.shape == (3, 2 * len(flows))",
    "segments.shape[1] == y.SEGMENT and len(count) == y.COUNTERS and len(limits) == y.LIMITS",
)
@kernel
def take(
    segments: Column, held: int, now: int, limits: Column, flows: Column, pieces: Column, ends: Column,
    out: Column, count: Column,
) -> None:  # fmt: skip
    """Take segments in the order of their arrival; the first ``held`` pieces have waited from before.

    What is given up because it waited until ``now`` is given up last. ``ends`` has for each direction the
    first and last of its pieces and the memory that they hold.
    """
    for k in range(held):
        before, after = place_of(k, pieces, ends)
        link(k, before, after, pieces, ends, count)
    count[y.PIECES] = held
    for i in range(len(segments)):
        _take_one(segments[i], limits, flows, pieces, ends, out, count)
    while count[y.OLDEST] >= 0 and pieces[y.P_SINCE, count[y.OLDEST]] + limits[y.WAIT] < now:
        skip_gap(pieces[y.P_OWNER, count[y.OLDEST]], y.LOST, flows, pieces, ends, out, count)


# `most_out` has room for these rows as well: each of them is a flow at hand, and ends once.
@bounded(
    "2 * len(rows) <= ends.shape[1] == 2 * len(flows)",
    "pieces.shape[0] == y.PIECE and out.shape[0] == y.OUT and len(count) == y.COUNTERS",
)
@kernel
def end(
    rows: Column, why: int, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    """End flows that have been silent for too long, or longest."""
    for i in range(len(rows)):
        _end_flow(rows[i], why, flows, pieces, ends, out, count)


@step
def _take_one(
    segment: Column, limits: Column, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    row, time, flags = segment[y.ROW], segment[y.TIME], segment[y.TCP_FLAGS]
    owner = 2 * row + segment[y.SIDE]
    _give_up_old(row, time, limits[y.WAIT], flows, pieces, ends, out, count)
    if time - flows[row, y.LAST_TIME] > limits[y.IDLE]:
        _end_flow(row, y.LOST, flows, pieces, ends, out, count)
        flows[row, y.CONNECTION] = 0
    flows[row, y.LAST_TIME] = max(time, flows[row, y.LAST_TIME])
    flows[row, y.IS_OPEN] = 1
    if flags & y.RST:
        _end_flow(row, y.CLOSED, flows, pieces, ends, out, count)
        flows[row, field(owner, y.FLAGS)] = flows[row, field(owner ^ 1, y.FLAGS)] = y.RESET
        return
    seq = segment[y.SEQ]
    if flags & y.SYN:
        seq = (seq + 1) & _MASK
        _synchronise(owner, seq, flows, pieces, ends, out, count)
    state = flows[row, field(owner, y.FLAGS)]
    if state & (y.FINISHED | y.RESET):
        return
    if not state & y.KNOWN:
        _begin(owner, seq, y.KNOWN, flows)
    _place(owner, seq, segment, limits, flows, pieces, ends, out, count)


@step
def _synchronise(
    owner: Any, first: Any, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    """A SYN begins a stream, repeats what is known, or begins a new connection in the place of an old one."""
    row, known = owner >> 1, flows[owner >> 1, field(owner, y.FLAGS)]
    if known & y.KNOWN:
        was = flows[row, field(owner, y.FIRST_SEQ)]
        if was == first:
            return
        is_overtaken = not known & (y.SYN_SEEN | y.FINISHED) and (was - first) & _MASK < y.BEHIND_SYN
        if is_overtaken:
            flows[row, field(owner, y.FLAGS)] |= y.SYN_SEEN
            return
    if known:
        _end_flow(row, y.CLOSED, flows, pieces, ends, out, count)
        flows[row, y.CONNECTION] += 1
    _begin(owner, first, y.KNOWN | y.SYN_SEEN, flows)


@step
def _begin(owner: Any, first: Any, state: Any, flows: Column) -> None:
    row = owner >> 1
    flows[row, field(owner, y.FLAGS)] = state
    flows[row, field(owner, y.NEXT_SEQ)] = flows[row, field(owner, y.FIRST_SEQ)] = first
    flows[row, field(owner, y.NEXT)] = 0
    flows[row, field(owner, y.FIN_AT)] = -1


@step
def _place(
    owner: Any, seq: Any, segment: Column, limits: Column, flows: Column, pieces: Column, ends: Column,
    out: Column, count: Column,
) -> None:  # fmt: skip
    """Give a segment's bytes out if they are next, or let them wait."""
    row = owner >> 1
    at = flows[row, field(owner, y.NEXT)]
    ahead = ((seq - flows[row, field(owner, y.NEXT_SEQ)] + _HALF) & _MASK) - _HALF
    if ahead >= y.WINDOW:
        return
    start, stop = at + ahead, at + ahead + segment[y.LENGTH]
    if segment[y.TCP_FLAGS] & y.FIN and flows[row, field(owner, y.FIN_AT)] < 0 and stop >= at:
        flows[row, field(owner, y.FIN_AT)] = stop
    if flows[row, field(owner, y.FIN_AT)] >= 0:
        stop = min(stop, flows[row, field(owner, y.FIN_AT)])
    place, size, time = segment[y.PLACE], segment[y.SIZE], segment[y.TIME]
    if stop > at:
        first = ends[0, owner]
        if start <= at and (first < 0 or pieces[y.P_START, first] >= stop):
            deliver(owner, start, stop, place, size, time, flows, out, count)
        else:
            lead = max(0, at - start)
            insert(owner, start + lead, stop, place + lead, size - lead, time, pieces, ends, count)
        drain(owner, flows, pieces, ends, out, count)
        _keep_bounds(owner, time, limits, flows, pieces, ends, out, count)
    if 0 <= flows[row, field(owner, y.FIN_AT)] <= flows[row, field(owner, y.NEXT)]:
        _finish(owner, y.CLOSED, flows, pieces, ends, out, count)
        flows[row, field(owner, y.FLAGS)] |= y.FINISHED


@step
def _keep_bounds(
    owner: Any, time: Any, limits: Column, flows: Column, pieces: Column, ends: Column, out: Column,
    count: Column,
) -> None:  # fmt: skip
    """Give up gaps, first of this direction, then of whichever has waited longest, until memory suffices."""
    while ends[2, owner] > limits[y.DIRECTION_BYTES]:
        skip_gap(owner, y.NO_MEMORY, flows, pieces, ends, out, count)
    while count[y.MEMORY] > limits[y.SLICE_BYTES]:
        oldest = count[y.OLDEST]
        # One that would have been given up by a punctuation before this packet must say the same.
        is_over = pieces[y.P_SINCE, oldest] + limits[y.WAIT] < time
        why = y.LOST if is_over else y.NO_MEMORY
        skip_gap(pieces[y.P_OWNER, oldest], why, flows, pieces, ends, out, count)


@step
def _give_up_old(
    row: Any, time: Any, wait: Any, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    """Give up the gaps of a flow that have been waited for too long."""
    oldest = count[y.OLDEST]
    if oldest < 0 or pieces[y.P_SINCE, oldest] + wait >= time:
        return
    for side in range(2):
        owner = 2 * row + side
        while _waits_too_long(owner, time - wait, pieces, ends):
            skip_gap(owner, y.LOST, flows, pieces, ends, out, count)


@step
def _waits_too_long(owner: Any, bound: Any, pieces: Column, ends: Column) -> Any:
    k = ends[0, owner]
    while k >= 0:
        if pieces[y.P_SINCE, k] < bound:
            return True
        k = pieces[y.P_NEXT, k]
    return False


@step
def _finish(
    owner: Any, why: Any, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    """Give out all that waits, and what is known to be missing behind it."""
    row = owner >> 1
    while ends[0, owner] >= 0:
        skip_gap(owner, why, flows, pieces, ends, out, count)
    missing = flows[row, field(owner, y.FIN_AT)] - flows[row, field(owner, y.NEXT)]
    if missing > 0:
        miss(owner, missing, why, flows)
        flows[row, field(owner, y.NEXT)] += missing
    if flows[row, field(owner, y.GAP)] > 0:
        give_out(owner, 0, 0, flows[row, y.LAST_TIME], flows, out, count)


@step
def _end_flow(
    row: Any, why: Any, flows: Column, pieces: Column, ends: Column, out: Column, count: Column
) -> None:
    """End both directions and forget them."""
    for side in range(2):
        owner = 2 * row + side
        _finish(owner, why, flows, pieces, ends, out, count)
        _begin(owner, 0, 0, flows)
