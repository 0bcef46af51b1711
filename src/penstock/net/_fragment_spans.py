"""The numba kernel that finds what part of which datagram a fragment holds."""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _fragment_layout as f
from penstock.net._bytes import be16, u8

_FRAGMENT, _AUTHENTICATION = 44, 51
_EXTENSIONS = (0, 43, _AUTHENTICATION, 60, 135, 139, 140)


@bounded(
    "len(ends) == len(ip_at) + 1 and ends[-1] <= len(data)",
    "out.shape == (f.SPAN, len(ip_at)) and len(ip_length) == len(ip_at)",
)
@kernel
def spans(data: Column, ends: Column, ip_at: Column, ip_length: Column, out: Column) -> None:
    """Read the IP headers of fragments; ``ip_at`` and ``ip_length`` are where decoding found them.

    What does not hold together is not sound; nothing outside of a packet is read.
    """
    for i in range(len(ip_at)):
        size, at, length = ends[i + 1] - ends[i], ip_at[i], ip_length[i]
        out[f.AT, i], out[f.CHARGE, i] = at, size + f.OVERHEAD
        if at < 0 or length < 20 or at + length > size:
            continue
        if u8(data, ends[i] + at) >> 4 == 4:
            _ipv4(data, ends[i], at, length, i, out)
        elif u8(data, ends[i] + at) >> 4 == 6 and length >= 40:
            _ipv6(data, ends[i], at, length, i, out)


@step
def _ipv4(data: Column, base: Any, at: Any, length: Any, i: Any, out: Column) -> None:
    head = (u8(data, base + at) & 15) * 4
    total, fragment = be16(data, base + at + 2), be16(data, base + at + 6)
    if head < 20 or head > length or total != length:
        return
    is_last = 1 - (fragment >> 13 & 1)
    size = length - head
    if not is_last:
        size -= size % 8  # what is over belongs to no place: other stacks leave it out too
    _write(4, at, head, at + head, (fragment & 0x1FFF) * 8, size, is_last, i, out)


@step
def _ipv6(data: Column, base: Any, at: Any, length: Any, i: Any, out: Column) -> None:
    end, place, patch = at + length, at + 40, at + 6
    protocol = u8(data, base + patch)
    while protocol in _EXTENSIONS and end - place >= 8:
        step_bytes = 4 if protocol == _AUTHENTICATION else 8
        size = 8 + u8(data, base + place + 1) * step_bytes
        protocol, patch = u8(data, base + place), place
        place += size
    if protocol != _FRAGMENT or end - place < 8:
        return
    fragment = be16(data, base + place + 2)
    is_last, size = 1 - (fragment & 1), end - place - 8
    if not is_last and size % 8:
        return
    out[f.PATCH, i], out[f.FOLLOWING, i] = patch, u8(data, base + place)
    _write(6, at, place - at, place + 8, fragment & 0xFFF8, size, is_last, i, out)


@step
def _write(
    version: Any, at: Any, head: Any, data_at: Any, begin: Any, size: Any, is_last: Any, i: Any, out: Column
) -> None:
    out[f.HEAD, i], out[f.DATA, i], out[f.VERSION, i] = head, data_at, version
    out[f.BEGIN, i], out[f.END, i], out[f.IS_LAST, i] = begin, begin + size, is_last
    out[f.IS_SOUND, i] = size > 0 and (begin > 0 or not is_last)
