"""The numba index over a pcap file's records. Total: what is damaged is passed over and reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _index_state as s
from penstock.net._bytes import in32
from penstock.net._prefetch import sweep

# What a file's header says: one array of int64.
IS_NANO, LINK, MOST_BYTES, HEADER_BYTES, SWAPPED = 0, 1, 2, 3, 4
FORM = 5

_CHAIN = 8  # so many good records in a row are no accident,
_CHAIN_AT_END = 3  # or so many that end exactly where the file ends
_NEAR_S = 10 * 86_400
_BILLION = 1_000_000_000


@step
def sizes(data: Column, at: Any, big: Any, swapped: Any) -> tuple[Any, Any]:
    """Captured and wire length of a record; files older than version 2.3 have them the other way round."""
    captured, wire = in32(data, at + 8, big), in32(data, at + 12, big)
    if swapped == 1 or (swapped == 2 and captured > wire):
        return wire, captured
    return captured, wire


@step
def is_plausible(data: Column, at: Any, big: Any, form: Column, last_s: Any) -> Any:
    """Whether a record could begin here. Asked only after damage."""
    captured, wire = sizes(data, at, big, form[SWAPPED])
    if captured > form[MOST_BYTES] or wire < captured or wire > s.MAX_BLOCK or wire < 1:
        return False
    if in32(data, at + 4, big) >= (_BILLION if form[IS_NANO] else 1_000_000):
        return False
    return last_s < 0 or abs(in32(data, at, big) - last_s) < _NEAR_S


@step
def holds(data: Column, at: Any, filled: Any, last: Any, big: Any, form: Column, last_s: Any) -> Any:
    """Whether a chain of good records begins here."""
    for n in range(_CHAIN):
        if at == filled and last:
            return n >= _CHAIN_AT_END
        if at + form[HEADER_BYTES] > filled or not is_plausible(data, at, big, form, last_s):
            return False
        at += form[HEADER_BYTES] + sizes(data, at, big, form[SWAPPED])[0]
        if at > filled:
            return False
    return True


@step
def report(faults: Column, state: Column, begin: Any, end: Any, reason: Any) -> None:
    """Note a stretch that cannot be read."""
    k = state[s.FAULTS]
    state[s.FAULTS] = k + 1
    if k < len(faults):  # `Walk` refuses more; memory stays whole
        faults[k, 0], faults[k, 1], faults[k, 2] = begin, end, reason


# Between two faults lies a good record, before which the number of faults is compared with MOST_FAULTS.
@bounded(
    "state[s.AT] >= 0 and filled <= len(data)",
    "most <= places.shape[1] == lengths.shape[1] == kinds.shape[1]",
    "faults.shape == (s.MOST_FAULTS, s.FAULT_COLUMNS) and len(state) == s.STATE and len(form) == FORM",
)
@kernel
def index_pcap(
    data: Column,
    filled: int,
    base: int,
    last: Any,
    stop: int,
    until: int,
    most: int,
    form: Column,
    state: Column,
    places: Column,
    lengths: Column,
    kinds: Column,
    faults: Column,
) -> int:
    """Find records from state[AT] on that begin before ``stop`` and end by ``until``, at most ``most``.

    Places are those in the file. It ends before a good record or at the end, behind any damage.
    ``base`` is where the buffer begins in the file; ``last``: nothing comes after the buffer. Fills
    places (record, packet, time), lengths (captured, wire) and kinds (interface, link type).
    """
    big = state[s.IS_BIG] == 1
    header, limit, swapped = form[HEADER_BYTES], form[MOST_BYTES], form[SWAPPED]
    unit = 1 if form[IS_NANO] else 1000
    at, n, last_s = state[s.AT], 0, state[s.LAST_S]
    state[s.FAULTS] = 0
    answer, fetched = s.DONE, at
    while True:
        fetched = sweep(data, fetched, at)
        if state[s.DAMAGE] >= 0:
            at, found = _search(data, at, filled, last, big, form, last_s)
            if found == s.MORE:
                answer = s.MORE
                break
            if found == s.FULL:  # not here: look on
                continue
            report(faults, state, state[s.DAMAGE], base + at, state[s.REASON])
            state[s.DAMAGE] = -1
        if at == filled and last:
            break
        if at + header > filled:
            if not last:
                answer = s.MORE
                break
            state[s.DAMAGE], state[s.REASON] = base + at, s.CUT_OFF
            continue
        captured, wire = sizes(data, at, big, swapped)
        if captured > limit or at + header + captured > filled:
            if captured <= limit and not last:
                answer = s.MORE
                break
            state[s.DAMAGE], state[s.REASON] = base + at, s.BAD_LENGTH if captured > limit else s.CUT_OFF
            continue
        if base + at >= stop:
            break
        if n >= most or state[s.FAULTS] >= s.MOST_FAULTS - 1 or base + at + header + captured > until:
            answer = s.FULL
            break
        last_s = in32(data, at, big)
        places[0, n] = base + at
        places[1, n] = at + header
        places[2, n] = last_s * _BILLION + in32(data, at + 4, big) * unit
        lengths[0, n] = captured
        lengths[1, n] = wire
        kinds[0, n] = 0
        kinds[1, n] = form[LINK]
        n += 1
        at += header + captured
    state[s.AT], state[s.ROWS], state[s.LAST_S] = at, n, last_s
    return answer


@bounded("state[s.AT] >= 0 and filled <= len(data) and len(state) == s.STATE and len(form) == FORM")
@kernel
def skip_records(
    data: Column, filled: int, base: int, stop: int, form: Column, most: int, state: Column
) -> int:
    """Pass over sound records as `index_pcap` would; it ends before anything that that one must judge."""
    big = state[s.IS_BIG] == 1
    header, limit, swapped = form[HEADER_BYTES], form[MOST_BYTES], form[SWAPPED]
    at, last, passed = state[s.AT], np.int64(-1), 0
    end = min(stop - base, filled - header + 1) if state[s.DAMAGE] < 0 else at
    fetched = at
    while at < end and passed < most:
        fetched = sweep(data, fetched, at)
        captured = sizes(data, at, big, swapped)[0]
        if captured > limit or at + header + captured > filled:
            break
        last, at, passed = at, at + header + captured, passed + 1
    if last >= 0:
        state[s.LAST_S] = in32(data, last, big)
    state[s.AT] = at
    return passed


@kernel
def ends_with_records(data: Column, big: Any, form: Column) -> Any:
    """Whether the bytes end with a few records that could be good ones."""
    filled = len(data)
    chain = np.zeros(filled + 1, np.uint8)  # records from here to the end, and one more
    chain[filled] = 1
    for at in range(filled - form[HEADER_BYTES], -1, -1):
        if is_plausible(data, at, big, form, -1):
            end = at + form[HEADER_BYTES] + sizes(data, at, big, form[SWAPPED])[0]
            if end <= filled and chain[end]:
                chain[at] = chain[end] + 1
                if chain[at] > _CHAIN_AT_END:
                    return True
    return False


@step
def _search(
    data: Column, at: Any, filled: Any, last: Any, big: Any, form: Column, last_s: Any
) -> tuple[Any, Any]:
    """One step of the search for the next good record: where, and DONE, MORE or FULL (not in this step).

    What is found depends on the WINDOW of bytes from here on, never on how much the buffer holds.
    """
    if not last and at + s.WINDOW > filled:
        return at, s.MORE
    ends_here = last and at + s.WINDOW > filled
    end = filled if ends_here else at + s.WINDOW
    stop = min(at + s.SEARCH, end)
    place = at + 1
    while place < stop:
        if place + form[HEADER_BYTES] <= end and holds(data, place, end, ends_here, big, form, last_s):
            return place, s.DONE
        place += 1
    if stop == end and ends_here:
        return np.int64(filled), s.DONE
    return np.int64(stop - 1), s.FULL
