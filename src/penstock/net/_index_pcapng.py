"""The numba index over a pcapng file's blocks. Total: what is damaged is passed over and reported."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, kernel, step
from penstock.net import _index_state as s
from penstock.net._bytes import be32, in16, in32, u8

_SHB = 0x0A0D0D0A
_MAGIC = 0x1A2B3C4D
_MAGIC_LITTLE = 0x4D3C2B1A
_BILLION = 1_000_000_000
_CHAIN = 3
_TSRESOL, _TSOFFSET = 9, 14
_MICRO = 6


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
def time_ns(ticks: Any, interface: Column) -> Any:
    """Ticks of an interface as ns since 1970, kept within int64."""
    shift, per_s = np.uint64(interface[s.SHIFT]), np.uint64(interface[s.TICKS])
    if per_s == 0:  # ticks are 2**-shift seconds
        if shift > np.uint64(63):
            return s.NO_TIME
        seconds = ticks >> shift
        rest = ticks - (seconds << shift)
        if shift > np.uint64(33):
            rest >>= shift - np.uint64(33)
            shift = np.uint64(33)
        ns = (rest * np.uint64(_BILLION)) >> shift
    else:
        seconds = ticks // per_s
        rest = ticks - seconds * per_s
        ns = (
            rest * (np.uint64(_BILLION) // per_s)
            if per_s <= _BILLION
            else rest // (per_s // np.uint64(_BILLION))
        )
    if seconds > np.uint64(1 << 62):
        return s.MAX_NS
    whole = np.int64(seconds) + interface[s.OFFSET_S]
    if whole > 9_223_372_035:
        return s.MAX_NS
    if whole < -9_223_372_035:
        return s.NO_TIME + 1
    return whole * _BILLION + np.int64(ns)


@step
def read_interface(data: Column, at: Any, length: Any, big: Any, out: Column) -> None:
    """Take over an interface description; options that do not fit are left out."""
    out[s.LINK], out[s.SNAP] = in16(data, at + 8, big), in32(data, at + 12, big)
    resolution, offset = _MICRO, np.int64(0)
    place, end = at + 16, at + length - 4
    while place + 4 <= end:
        code, size = in16(data, place, big), in16(data, place + 2, big)
        if code == 0 or place + 4 + size > end:
            break
        if code == _TSRESOL and size == 1:
            resolution = u8(data, place + 4)
        elif code == _TSOFFSET and size == 8:
            high, low = in32(data, place + 4, big), in32(data, place + 8, big)
            offset = (high << 32 | low) if big else (low << 32 | high)
        place += 4 + (size + 3) // 4 * 4
    # 64 bits of seconds cannot be added without an overflow; beyond int32 no clock is meant.
    out[s.OFFSET_S] = max(-(1 << 40), min(1 << 40, offset))
    out[s.TICKS], out[s.SHIFT] = 0, resolution & 0x7F
    if resolution < 0x80:
        ticks, n = np.uint64(1), 0
        while n < resolution and n < 19:
            ticks *= np.uint64(10)
            n += 1
        out[s.SHIFT] = 127
        out[s.TICKS] = np.int64(ticks) if resolution < 19 else 0
    out[s.NS_PER_TICK] = out[s.FAST_TICKS] = 0
    if 0 <= resolution <= 9 and out[s.OFFSET_S] == 0:
        out[s.NS_PER_TICK] = _BILLION // out[s.TICKS]
        out[s.FAST_TICKS] = s.MAX_NS // out[s.NS_PER_TICK]


@step
def _take_packet(
    data: Column, at: Any, base: Any, length: Any, kind: Any, big: Any, interfaces: Column, count: Any,
    n: Any, places: Column, lengths: Column, kinds: Column,
) -> Any:  # fmt: skip
    """Enter the packet of a block; answers 0, or why there is none."""
    if length < (16 if kind == 3 else 32):
        return s.BAD_PACKET
    number = 0 if kind == 3 else in16(data, at + 8, big) if kind == 2 else in32(data, at + 8, big)
    if number >= count:
        return s.NO_INTERFACE
    if kind == 3:
        wire, header, room = in32(data, at + 8, big), 12, length - 16
        snap = interfaces[number, s.SNAP]
        captured = wire if snap == 0 else min(wire, snap)
        places[2, n] = s.NO_TIME
    else:
        captured, wire, header, room = in32(data, at + 20, big), in32(data, at + 24, big), 28, length - 32
        ticks = in32(data, at + 12, big) << 32 | in32(data, at + 16, big)
        if 0 <= ticks < interfaces[number, s.FAST_TICKS]:
            places[2, n] = ticks * interfaces[number, s.NS_PER_TICK]
        else:
            places[2, n] = time_ns(np.uint64(ticks), interfaces[number])
    if captured > room:
        return s.BAD_PACKET
    places[0, n] = base + at
    places[1, n] = at + header
    lengths[0, n] = captured
    lengths[1, n] = wire
    kinds[0, n] = number
    kinds[1, n] = interfaces[number, s.LINK]
    return 0


@step
def _report(faults: Column, state: Column, begin: Any, end: Any, reason: Any) -> None:
    k = state[s.FAULTS]
    faults[k, 0], faults[k, 1], faults[k, 2] = begin, end, reason
    state[s.FAULTS] = k + 1


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


@kernel
def index_pcapng(
    data: Column,
    filled: int,
    base: int,
    last: bool,
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
    """Find packets from state[AT] on in blocks that begin before ``stop`` and end by ``until``; see `index_pcap`.

    GROW asks for a larger table of interfaces. ``blocks`` counts the blocks of each kind.
    """
    at, n = state[s.AT], 0
    state[s.FAULTS] = 0
    answer = s.DONE
    while True:
        if state[s.DAMAGE] >= 0:
            at, found = _search(data, at, filled, last, state[s.IS_BIG] == 1)
            if found == s.MORE:
                answer = s.MORE
                break
            if found == s.FULL:
                continue
            _report(faults, state, state[s.DAMAGE], base + at, state[s.REASON])
            state[s.DAMAGE] = -1
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
        if n >= most or state[s.FAULTS] >= s.MOST_FAULTS - 2 or base + at + length > until:
            answer = s.FULL
            break
        if be32(data, at) == _SHB:
            _begin_section(data, at, base, state)
        big = state[s.IS_BIG] == 1
        kind = in32(data, at, big)
        if kind == 1:
            if state[s.INTERFACES] >= len(interfaces):
                answer = s.GROW
                break
            if length >= 20:
                read_interface(data, at, length, big, interfaces[state[s.INTERFACES]])
                state[s.INTERFACES] += 1
                state[s.LAST_INTERFACE] = base + at
            else:
                _report(faults, state, base + at, base + at + length, s.BAD_BLOCK)
        elif kind in (2, 3, 6):
            why = _take_packet(
                data, at, base, length, kind, big, interfaces, state[s.INTERFACES], n, places, lengths, kinds
            )
            if why:
                _report(faults, state, base + at, base + at + length, why)
            else:
                n += 1
        blocks[slot_of(kind)] += 1
        at += length
    state[s.AT], state[s.ROWS] = at, n
    return answer


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
