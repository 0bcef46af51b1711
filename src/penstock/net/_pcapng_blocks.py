"""Numba steps for single blocks of pcapng: interfaces with their clocks, and packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, step
from penstock.net import _index_state as s
from penstock.net._bytes import in16, in32, u8

_BILLION = 1_000_000_000
_TSRESOL, _TSOFFSET = 9, 14
_MICRO = 6


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
def take_packet(
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
