"""The numba kernels that put fragments to their datagrams, in the order in which they came."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _fragment_layout as f

_OLDEST, _YOUNGEST, _MEMORY, _GIVEN_UP, _COMPLETE = range(5)
_COUNTERS = 5


# A fragment that is not held is given up by itself. A datagram is given up once between the first fragment
# that it holds and its release, and then needs another fragment. So nothing is given up more often than there
# are fragments; and each fragment completes one packet at most.
@bounded(
    "held <= len(since) and held <= len(datagrams) == len(times) == len(tombs)",
    "spans.shape == (f.SPAN, len(datagrams)) and fates.shape == (f.FATE, len(datagrams))",
    "given_up.shape[0] == f.GIVEN_UP and given_up.shape[1] >= len(datagrams)",
    "len(complete) >= len(datagrams) and len(limits) == 3",
)
@kernel
def collect(
    datagrams: Column, times: Column, spans: Column, since: Column, tombs: Column, held: int, limits: Column,
    now: int, fates: Column, given_up: Column, complete: Column,
) -> tuple[int, int]:  # fmt: skip
    """Put fragments to their datagrams; the first ``held`` of them were accepted before.

    ``limits``: how long a datagram waits, and how many bytes one and all of them may hold. Afterwards
    ``fates`` says which fragments are still held, since when, and which complete packet took the others;
    ``complete`` has the fragment that completed each. Returns how many were given up and completed.
    """
    count = np.zeros(_COUNTERS, np.int64)
    count[_OLDEST] = count[_YOUNGEST] = -1
    waiting = np.zeros((f.WAITING, datagrams.max() + 1 if len(datagrams) else 0), np.int64)
    for k in (f.HEAD_OF, f.FIRST, f.TOTAL):
        waiting[k, :] = -1
    for i in range(len(datagrams)):
        g = datagrams[i]
        if i < held:
            fates[f.SINCE, i] = since[i]
            _hold(i, g, spans, fates, waiting, count)
            if tombs[i]:
                fates[f.LIFE, i] = f.TOMB
            continue
        first = waiting[f.FIRST, g]
        if first >= 0 and fates[f.SINCE, first] + limits[0] < times[i]:
            _give_up(g, f.MISSING, spans, fates, waiting, given_up, count)
        youngest = count[_YOUNGEST]
        fates[f.SINCE, i] = max(times[i], fates[f.SINCE, youngest]) if youngest >= 0 else times[i]
        _take(i, g, limits, spans, fates, waiting, given_up, count)
        if _is_complete(g, spans, fates, waiting):
            if not _fits(g, spans, waiting):
                _discard(g, f.TOO_LONG, spans, fates, waiting, given_up, count)
                continue
            _release(g, count[_COMPLETE], fates, waiting, spans, count)
            complete[count[_COMPLETE]] = i
            count[_COMPLETE] += 1
        while count[_MEMORY] > limits[2]:
            oldest = count[_OLDEST]
            is_over = fates[f.SINCE, oldest] + limits[0] < times[i]
            reason = f.MISSING if is_over else f.NO_MEMORY
            _give_up(datagrams[oldest], reason, spans, fates, waiting, given_up, count)
    while count[_OLDEST] >= 0 and fates[f.SINCE, count[_OLDEST]] + limits[0] < now:
        _give_up(datagrams[count[_OLDEST]], f.MISSING, spans, fates, waiting, given_up, count)
    return count[_GIVEN_UP], count[_COMPLETE]


@step
def _take(
    i: Any, g: Any, limits: Column, spans: Column, fates: Column, waiting: Column, given_up: Column,
    count: Column,
) -> None:  # fmt: skip
    """Hold a fragment, or say why not; what brings nothing new is left out."""
    begin, end = spans[f.BEGIN, i], spans[f.END, i]
    first = waiting[f.FIRST, g]
    if not spans[f.IS_SOUND, i] or (first >= 0 and fates[f.LIFE, first] == f.TOMB):
        reason = f.DISCARDED if spans[f.IS_SOUND, i] else f.MALFORMED
        _report(i, 1, end - begin, reason, given_up, count)
        return
    reason = -1
    extra = 40 if spans[f.VERSION, i] == 6 else 0  # the length of an IPv6 packet is without its header
    total = waiting[f.TOTAL, g]
    if spans[f.HEAD, i] - extra + end > f.LONGEST:
        reason = f.TOO_LONG
    elif 0 <= total < end or (spans[f.IS_LAST, i] and waiting[f.FURTHEST, g] > end):
        reason = f.CONTRADICTION
    else:
        overlaps, covers, is_copy = _overlap(begin, end, g, spans, fates, waiting)
        if covers and (is_copy or spans[f.VERSION, i] == 4):
            return
        if overlaps and spans[f.VERSION, i] == 6:
            reason = f.OVERLAP
        elif waiting[f.MEMORY, g] + spans[f.CHARGE, i] > limits[1]:
            reason = f.TOO_MANY
    _hold(i, g, spans, fates, waiting, count)
    if reason >= 0:
        _discard(g, reason, spans, fates, waiting, given_up, count)


@step
def _overlap(
    begin: Any, end: Any, g: Any, spans: Column, fates: Column, waiting: Column
) -> tuple[Any, Any, Any]:
    """Whether a part overlaps with what is held, is all there already, and has come like this before."""
    reach, overlaps, is_copy = begin, False, False
    row = waiting[f.HEAD_OF, g]
    while row >= 0 and spans[f.BEGIN, row] < end:
        if spans[f.END, row] > begin:
            overlaps = True
            is_copy |= spans[f.BEGIN, row] == begin and spans[f.END, row] == end
        if spans[f.BEGIN, row] <= reach:
            reach = max(reach, spans[f.END, row])
        row = fates[f.NEXT, row]
    return overlaps, reach >= end, is_copy


@step
def _hold(i: Any, g: Any, spans: Column, fates: Column, waiting: Column, count: Column) -> None:
    """Enter a fragment: by its place in the datagram, and as the youngest of all."""
    before, row = np.int64(-1), waiting[f.HEAD_OF, g]
    while row >= 0 and spans[f.BEGIN, row] <= spans[f.BEGIN, i]:
        before, row = row, fates[f.NEXT, row]
    fates[f.NEXT, i] = row
    if before < 0:
        waiting[f.HEAD_OF, g] = i
    else:
        fates[f.NEXT, before] = i
    if waiting[f.FIRST, g] < 0:
        waiting[f.FIRST, g] = i
    if spans[f.IS_LAST, i]:
        waiting[f.TOTAL, g] = spans[f.END, i]
    waiting[f.FURTHEST, g] = max(waiting[f.FURTHEST, g], spans[f.END, i])
    waiting[f.MEMORY, g] += spans[f.CHARGE, i]
    waiting[f.COUNT, g] += 1
    fates[f.LIFE, i], fates[f.DATAGRAM, i] = f.HELD, -1
    fates[f.OLDER, i], fates[f.YOUNGER, i] = count[_YOUNGEST], -1
    if count[_YOUNGEST] >= 0:
        fates[f.YOUNGER, count[_YOUNGEST]] = i
    else:
        count[_OLDEST] = i
    count[_YOUNGEST] = i
    count[_MEMORY] += spans[f.CHARGE, i]


@step
def _is_complete(g: Any, spans: Column, fates: Column, waiting: Column) -> Any:
    total, row, reach = waiting[f.TOTAL, g], waiting[f.HEAD_OF, g], 0
    if total < 0 or fates[f.LIFE, waiting[f.FIRST, g]] == f.TOMB:
        return False
    while row >= 0 and spans[f.BEGIN, row] <= reach:
        reach = max(reach, spans[f.END, row])
        row = fates[f.NEXT, row]
    return reach >= total


@step
def _fits(g: Any, spans: Column, waiting: Column) -> Any:
    """Whether the length of the whole packet can be written; only its first fragment knows the header."""
    head = waiting[f.HEAD_OF, g]
    extra = 40 if spans[f.VERSION, head] == 6 else 0
    return spans[f.HEAD, head] - extra + waiting[f.TOTAL, g] <= f.LONGEST


@step
def _forget(row: Any, spans: Column, fates: Column, count: Column) -> None:
    """Let go of one fragment."""
    older, younger = fates[f.OLDER, row], fates[f.YOUNGER, row]
    if older >= 0:
        fates[f.YOUNGER, older] = younger
    else:
        count[_OLDEST] = younger
    if younger >= 0:
        fates[f.OLDER, younger] = older
    else:
        count[_YOUNGEST] = older
    fates[f.LIFE, row] = f.GONE
    count[_MEMORY] -= spans[f.CHARGE, row]


@step
def _release(g: Any, packet: Any, fates: Column, waiting: Column, spans: Column, count: Column) -> None:
    """Let go of a datagram; ``packet`` is the number of the packet that it becomes, -1 if none."""
    row = waiting[f.HEAD_OF, g]
    while row >= 0:
        fates[f.DATAGRAM, row] = packet
        _forget(row, spans, fates, count)
        row = fates[f.NEXT, row]
    waiting[f.HEAD_OF, g] = waiting[f.FIRST, g] = waiting[f.TOTAL, g] = -1
    waiting[f.FURTHEST, g] = waiting[f.MEMORY, g] = waiting[f.COUNT, g] = 0


@step
def _give_up(
    g: Any, reason: Any, spans: Column, fates: Column, waiting: Column, given_up: Column, count: Column
) -> None:
    """Let go of a datagram and say so, unless it was said before."""
    first = waiting[f.FIRST, g]
    if fates[f.LIFE, first] != f.TOMB:
        _report_all(g, reason, spans, fates, waiting, given_up, count)
    _release(g, -1, fates, waiting, spans, count)


@step
def _discard(
    g: Any, reason: Any, spans: Column, fates: Column, waiting: Column, given_up: Column, count: Column
) -> None:
    """Give a datagram up and keep its first fragment, so that what comes later is discarded too."""
    first = waiting[f.FIRST, g]
    _report_all(g, reason, spans, fates, waiting, given_up, count)
    row = waiting[f.HEAD_OF, g]
    while row >= 0:
        if row != first:
            _forget(row, spans, fates, count)
        row = fates[f.NEXT, row]
    fates[f.LIFE, first], fates[f.NEXT, first] = f.TOMB, -1
    waiting[f.HEAD_OF, g] = first
    waiting[f.MEMORY, g], waiting[f.COUNT, g] = spans[f.CHARGE, first], 1


@step
def _report_all(
    g: Any, reason: Any, spans: Column, fates: Column, waiting: Column, given_up: Column, count: Column
) -> None:
    size, row = 0, waiting[f.HEAD_OF, g]
    while row >= 0:
        size += spans[f.END, row] - spans[f.BEGIN, row]
        row = fates[f.NEXT, row]
    _report(waiting[f.FIRST, g], waiting[f.COUNT, g], size, reason, given_up, count)


@step
def _report(row: Any, fragments: Any, size: Any, reason: Any, given_up: Column, count: Column) -> None:
    n = count[_GIVEN_UP]
    count[_GIVEN_UP] += 1
    if n < given_up.shape[1]:  # `Defragment` refuses more; memory stays whole
        given_up[f.G_ROW, n], given_up[f.G_COUNT, n] = row, fragments
        given_up[f.G_BYTES, n], given_up[f.G_REASON, n] = size, reason
