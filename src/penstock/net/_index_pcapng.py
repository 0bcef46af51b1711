"""The numba index over a pcapng file's blocks. Total: what is damaged is passed over and reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _index_state as s
from penstock.net._bytes import be32, in16, in32
from penstock.net._index_pcap import report
from penstock.net._pcapng_blocks import read_interface, take_packet

_SHB = 0x0A0D0D0A
_MAGIC = 0x1A2B3C4D
_MAGIC_LITTLE = 0x4D3C2B1A
_CHAIN = 3


@step
def order_of(data: Column, at: Any) -> Any:
    """The byte order that a section header declares: 1 big, 0 little, -1 neither."""
    magic = be32(data, at + 8)
    return 1 if magic == _MAGIC else 0 if magic == _MAGIC_LITTLE else -1


@step
def slot_of(kind: Any) -> Any:
    """Where a block is counted (see BLOCK_KINDS)."""
    if kind == _SHB:
        return 0
    if 1 <= kind <= 6:
        return kind
    if kind == 9:
        return 7
    if kind == 10:
        return 8
    if kind == 0xBAD:
        return 9
    return 10 if kind == 0x40000BAD else 11


@step
def is_block(data: Column, at: Any, filled: Any, big: Any) -> Any:
    """The length of the block here if its two lengths agree, else 0. Asked only after damage."""
    if at + 12 > filled:
        return 0
    if be32(data, at) == _SHB:
        if at + 28 > filled or order_of(data, at) < 0:
            return 0
        big = order_of(data, at) == 1
    elif slot_of(in32(data, at, big)) == 11:
        return 0
    length = in32(data, at + 4, big)
    if length < 12 or length & 3 or length > s.MAX_BLOCK or at + length > filled:
        return 0
    return length if in32(data, at + length - 4, big) == length else 0


@step
def _begin_section(data: Column, at: Any, base: Any, state: Column) -> None:
    state[s.SECTION] = state[s.LAST_INTERFACE] = base + at
    state[s.INTERFACES] = 0
    state[s.IS_BIG] = order_of(data, at)


@step
def fault_of(data: Column, at: Any, filled: Any, last: Any, big: Any) -> tuple[Any, Any]:
    """The length of the block here, and why it cannot be read: 0 it can, -1 more bytes are needed."""
    if at + 12 > filled:
        return 0, s.CUT_OFF if last else -1
    if be32(data, at) == _SHB:
        if at + 28 > filled:
            return 0, s.CUT_OFF if last else -1
        order = order_of(data, at)
        if order < 0 or in16(data, at + 12, order == 1) != 1:
            return 0, s.BAD_SECTION
        big = order == 1
    length = in32(data, at + 4, big)
    if length < 12 or length & 3 or length > s.MAX_BLOCK or (be32(data, at) == _SHB and length < 28):
        return length, s.BAD_BLOCK
    if at + length > filled:
        return length, s.CUT_OFF if last else -1
    return length, 0 if in32(data, at + length - 4, big) == length else s.BAD_BLOCK


@step
def _search(data: Column, at: Any, filled: Any, last: Any, big: Any) -> tuple[Any, Any]:
    """One step of the search for the next good block; see `_index_pcap._search`."""
    if not last and at + 2 * s.MAX_BLOCK > filled:
        return at, s.MORE
    ends_here = last and at + 2 * s.MAX_BLOCK > filled
    end = filled if ends_here else at + 2 * s.MAX_BLOCK
    stop = min(at + s.SEARCH, end)
    place = at + 1
    while place < stop:
        follow, good, order = place, 0, big
        while good < _CHAIN:
            length = is_block(data, follow, end, order)
            if length == 0:
                break
            if be32(data, follow) == _SHB:
                order = order_of(data, follow) == 1
            follow += length
            good += 1
        if good == _CHAIN or (good and follow == end and ends_here):
            return place, s.DONE
        place += 1
    if stop == end and ends_here:
        return np.int64(filled), s.DONE
    return np.int64(stop - 1), s.FULL


@step
def _take_interface(
    data: Column, at: Any, base: Any, length: Any, interfaces: Column, state: Column, faults: Column
) -> None:
    """Enter an interface; the table has room for it."""
    if length < 20:
        report(faults, state, base + at, base + at + length, s.BAD_BLOCK)
        return
    read_interface(data, at, length, state[s.IS_BIG] == 1, interfaces[state[s.INTERFACES]])
    state[s.INTERFACES] += 1
    state[s.LAST_INTERFACE] = base + at


@step
def _pass_damage(
    data: Column, at: Any, filled: Any, base: Any, last: Any, state: Column, faults: Column
) -> tuple[Any, Any]:
    """Go on to the next good block if there is damage here: where that is, and whether it is known yet."""
    found = s.DONE
    if state[s.DAMAGE] >= 0:
        at, found = _search(data, at, filled, last, state[s.IS_BIG] == 1)
        while found == s.FULL:
            at, found = _search(data, at, filled, last, state[s.IS_BIG] == 1)
        if found == s.DONE:
            report(faults, state, state[s.DAMAGE], base + at, state[s.REASON])
            state[s.DAMAGE] = -1
    return at, found


@bounded(
    "state[s.AT] >= 0 and filled <= len(data)",
    "most <= places.shape[1] == lengths.shape[1] == kinds.shape[1]",
    "faults.shape == (s.MOST_FAULTS, s.FAULT_COLUMNS) and len(state) == s.STATE",
    "state[s.INTERFACES] <= len(interfaces) and interfaces.shape[1] == s.INTERFACE_COLUMNS",
    "len(blocks) == len(s.BLOCK_KINDS)",
)
@kernel
def index_pcapng(  # noqa: C901 - one loop over blocks; what can be a step of its own is one
    data: Column,
    filled: int,
    base: int,
    last: Any,
    stop: int,
    until: int,
    most: int,
    interfaces: Column,
    blocks: Column,
    state: Column,
    places: Column,
    lengths: Column,
    kinds: Column,
    faults: Column,
) -> int:
    """Find packets from state[AT] on as `index_pcap` does, in blocks instead of records.

    GROW asks for a larger table of interfaces. ``blocks`` counts the blocks of each kind.
    """
    at, n = state[s.AT], 0
    state[s.FAULTS] = 0
    answer = s.DONE
    while True:
        # One pass of this loop reports at most two faults, and not every pass comes to a good block:
        # a section of an unknown version ends the search in `_search`, and is damage itself.
        if state[s.FAULTS] > s.MOST_FAULTS - 2:
            answer = s.FULL
            break
        at, found = _pass_damage(data, at, filled, base, last, state, faults)
        if found == s.MORE:
            answer = s.MORE
            break
        if at == filled and last:
            break
        length, reason = fault_of(data, at, filled, last, state[s.IS_BIG] == 1)
        if reason < 0:
            answer = s.MORE
            break
        if reason > 0:
            state[s.DAMAGE], state[s.REASON] = base + at, reason
            continue
        if base + at >= stop:
            break
        if n >= most or base + at + length > until:
            answer = s.FULL
            break
        if be32(data, at) == _SHB:
            _begin_section(data, at, base, state)
        kind = in32(data, at, state[s.IS_BIG] == 1)
        if kind == 1 and state[s.INTERFACES] < s.MOST_INTERFACES:
            if state[s.INTERFACES] >= len(interfaces):
                answer = s.GROW
                break
            _take_interface(data, at, base, length, interfaces, state, faults)
        elif kind == 2 or kind == 3 or kind == 6:
            why = take_packet(
                data, at, base, length, kind, state[s.IS_BIG] == 1, interfaces, state[s.INTERFACES], n,
                places, lengths, kinds,
            )  # fmt: skip
            if why:
                report(faults, state, base + at, base + at + length, why)
            else:
                n += 1
        blocks[slot_of(kind)] += 1
        at += length
    state[s.AT], state[s.ROWS] = at, n
    return answer
