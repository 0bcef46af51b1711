"""Numba steps for IPv4 and IPv6. Each answers (next, value, place, captured end, wire end)."""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, step
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, be64, u8

MAPPED = 0xFFFF_0000_0000  # IPv4 addresses are written as ::ffff:a.b.c.d
_FRAGMENT, _AUTHENTICATION, _NO_NEXT = 44, 51, 59


@step
def ip(
    data: Column, at: Any, cap: Any, wire: Any, version: Any, row: Column
) -> tuple[Any, Any, Any, Any, Any]:
    """Either version, as the first half byte says; ``version`` is what was announced, 0 if nothing was."""
    if cap <= at:
        return y.STOP, y.CUT_IP, at, cap, wire
    found = u8(data, at) >> 4
    if (found != 4 and found != 6) or (version != 0 and found != version):
        return y.STOP, y.BAD_VERSION, at, cap, wire
    if found == 4:
        return _ipv4(data, at, cap, wire, row)
    return _ipv6(data, at, cap, wire, row)


@step
def _enter(version: Any, row: Column) -> None:
    """Keep the addresses of a packet that carries another one, and forget the rest of it."""
    if row[y.VERSION] != 0:
        for k in range(4):
            row[y.OUTER_SRC_HIGH + k] = row[y.SRC_HIGH + k]
        row[y.DEPTH] += 1
        row[y.SRC_PORT] = row[y.DST_PORT] = row[y.FRAGMENT_OFFSET] = 0
        row[y.FRAGMENT_ID] = 0
        row[y.MORE_FRAGMENTS] = 0
    row[y.VERSION] = version


@step
def _ipv4(data: Column, at: Any, cap: Any, wire: Any, row: Column) -> tuple[Any, Any, Any, Any, Any]:
    header = (u8(data, at) & 15) * 4
    if cap - at < 20:
        return y.STOP, y.CUT_IP, at, cap, wire
    if header < 20:
        return y.STOP, y.BAD_HEADER, at, cap, wire
    total = be16(data, at + 2)
    if total == 0:  # the card was to cut it up: the length is that of what was captured
        total = wire - at
    if total < header:
        return y.STOP, y.BAD_LENGTH, at, cap, wire
    _enter(4, row)
    row[y.SRC_HIGH] = row[y.DST_HIGH] = 0
    row[y.SRC_LOW] = MAPPED | be32(data, at + 12)
    row[y.DST_LOW] = MAPPED | be32(data, at + 16)
    row[y.IP_LENGTH] = total
    row[y.TOS], row[y.TTL] = data[at + 1], data[at + 8]
    protocol = u8(data, at + 9)
    row[y.PROTOCOL] = protocol
    fragment = be16(data, at + 6)
    if fragment & 0x3FFF:
        row[y.FRAGMENT_OFFSET] = (fragment & 0x1FFF) * 8
        row[y.MORE_FRAGMENTS] = fragment >> 13 & 1
        row[y.FRAGMENT_ID] = be16(data, at + 4)
    if at + total > wire and row[y.REASON] == y.OK:
        row[y.REASON] = y.TOO_LONG
    wire = min(wire, at + total)
    cap = min(cap, wire)
    if at + header > cap:
        return y.STOP, y.CUT_EXTENSION, at, cap, wire
    return y.TRANSPORT, protocol, at + header, cap, wire


@step
def _ipv6(data: Column, at: Any, cap: Any, wire: Any, row: Column) -> tuple[Any, Any, Any, Any, Any]:
    if cap - at < 40:
        return y.STOP, y.CUT_IP, at, cap, wire
    _enter(6, row)
    row[y.SRC_HIGH], row[y.SRC_LOW] = be64(data, at + 8), be64(data, at + 16)
    row[y.DST_HIGH], row[y.DST_LOW] = be64(data, at + 24), be64(data, at + 32)
    total = 40 + be16(data, at + 4)
    protocol = u8(data, at + 6)
    if total == 40 and protocol == 0:  # a jumbogram, or cut up by the card
        total = wire - at
    row[y.IP_LENGTH] = total
    row[y.TOS] = be16(data, at) >> 4 & 255
    row[y.TTL] = data[at + 7]
    row[y.PROTOCOL] = protocol
    if at + total > wire and row[y.REASON] == y.OK:
        row[y.REASON] = y.TOO_LONG
    wire = min(wire, at + total)
    cap = min(cap, wire)
    at += 40
    while protocol in (0, 43, _FRAGMENT, _AUTHENTICATION, 60, 135, 139, 140):
        if cap - at < 8:
            return y.STOP, y.CUT_EXTENSION, at, cap, wire
        following, size = u8(data, at), 8 + u8(data, at + 1) * 8
        if protocol == _AUTHENTICATION:
            size = 8 + u8(data, at + 1) * 4
        elif protocol == _FRAGMENT:
            size = 8
            row[y.FRAGMENT_OFFSET] = be16(data, at + 2) & 0xFFF8
            row[y.MORE_FRAGMENTS] = be16(data, at + 2) & 1
            row[y.FRAGMENT_ID] = be32(data, at + 4)
        row[y.PROTOCOL] = following
        at += size
        if at > cap:
            return y.STOP, y.CUT_EXTENSION, at - size, cap, wire
        protocol = following
        if row[y.FRAGMENT_OFFSET]:
            break
    return y.TRANSPORT, protocol, at, cap, wire
