"""Numba steps for what IP carries: TCP, UDP and the like, and the tunnels.

Each answers (next, value, place); STOP with OK ends a packet that is fully decoded.
"""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, step
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, u8

_TCP, _UDP, _UDP_LITE, _SCTP, _DCCP, _ICMP, _ICMP6 = 6, 17, 136, 132, 33, 1, 58
_IP4_IN, _IP6_IN, _GRE, _MPLS_IN, _ETHERNET_IN = 4, 41, 47, 137, 143
_VXLAN_PORT, _GENEVE_PORT, _GTP_PORT, _GB_PORT = 4789, 6081, 2152, 23000
_TO_MPLS, _TO_ETHERNET, _ERSPAN, _ERSPAN3 = 0x8847, 0x6558, 0x88BE, 0x22EB


@step
def is_tunnel(source: Any, target: Any) -> Any:
    """Whether ports of UDP may belong to a tunnel."""
    return source in (_GTP_PORT, _GB_PORT) or target in (_GTP_PORT, _VXLAN_PORT, _GENEVE_PORT, _GB_PORT)


@step
def transport(
    data: Column, at: Any, cap: Any, wire: Any, protocol: Any, descend: Any, row: Column
) -> tuple[Any, Any, Any]:
    """Ports and flags of a first or only fragment, or the way into a tunnel."""
    if row[y.FRAGMENT_OFFSET] > 0:
        return y.STOP, y.OK, at
    if protocol == _TCP:
        return _tcp(data, at, cap, wire, row)
    if protocol in (_UDP, _UDP_LITE):
        return _udp(data, at, cap, wire, protocol, descend, row)
    if protocol in (_SCTP, _DCCP):
        header = 12
        if cap - at < 4:
            return y.STOP, y.CUT_TRANSPORT, at
        row[y.SRC_PORT], row[y.DST_PORT] = be16(data, at), be16(data, at + 2)
        return y.STOP, y.OK if cap - at >= header else y.CUT_TRANSPORT, min(at + header, cap)
    if protocol in (_ICMP, _ICMP6):
        if cap - at < 4:
            return y.STOP, y.CUT_TRANSPORT, at
        row[y.ICMP_TYPE], row[y.ICMP_CODE] = data[at], data[at + 1]
        return y.STOP, y.OK, min(at + 8, cap)
    if descend and not row[y.MORE_FRAGMENTS]:
        return _carried(data, at, cap, protocol, row)
    return y.STOP, y.OK, at


@step
def _carried(data: Column, at: Any, cap: Any, protocol: Any, row: Column) -> tuple[Any, Any, Any]:
    """A packet right inside of IP."""
    if protocol == _IP4_IN:
        row[y.TUNNEL] = y.IPIP if row[y.VERSION] == 4 else y.FOUR_IN_SIX
        return y.IP, 4, at
    if protocol == _IP6_IN:
        row[y.TUNNEL] = y.SIX_IN_FOUR if row[y.VERSION] == 4 else y.SIX_IN_SIX
        return y.IP, 6, at
    if protocol == _GRE:
        return _gre(data, at, cap, row)
    if protocol == _MPLS_IN:
        return y.BY_TYPE, _TO_MPLS, at
    if protocol == _ETHERNET_IN and cap - at >= 2 and u8(data, at) >> 4 == 3:
        return y.ETHERNET, 0, at + 2
    return y.STOP, y.OK, at


@step
def _tcp(data: Column, at: Any, cap: Any, wire: Any, row: Column) -> tuple[Any, Any, Any]:
    if cap - at < 4:
        return y.STOP, y.CUT_TRANSPORT if wire > cap or wire - at < 20 else y.BAD_TRANSPORT, at
    row[y.SRC_PORT], row[y.DST_PORT] = be16(data, at), be16(data, at + 2)
    if cap - at < 16:
        return y.STOP, y.CUT_TRANSPORT, at
    row[y.TCP_SEQ], row[y.TCP_ACK] = be32(data, at + 4), be32(data, at + 8)
    row[y.FLAGS] = data[at + 13]
    row[y.TCP_WINDOW] = be16(data, at + 14)
    header = (u8(data, at + 12) >> 4) * 4
    if header < 20 or at + header > wire:
        return y.STOP, y.BAD_TRANSPORT, at
    return y.STOP, y.OK, at + header  # options may lie behind what was captured


@step
def _udp(
    data: Column, at: Any, cap: Any, wire: Any, protocol: Any, descend: Any, row: Column
) -> tuple[Any, Any, Any]:
    if cap - at < 4:
        return y.STOP, y.CUT_TRANSPORT, at
    source, target = be16(data, at), be16(data, at + 2)
    row[y.SRC_PORT], row[y.DST_PORT] = source, target
    if cap - at < 8:
        return y.STOP, y.CUT_TRANSPORT, at
    length = be16(data, at + 4)
    if protocol == _UDP and 0 < length < 8:
        return y.STOP, y.BAD_TRANSPORT, at
    if descend and not row[y.MORE_FRAGMENTS]:
        if target == _GTP_PORT or source == _GTP_PORT:
            return _gtp(data, at + 8, cap, row)
        if target == _VXLAN_PORT:
            return _vxlan(data, at + 8, cap, row)
        if target == _GENEVE_PORT:
            return _geneve(data, at + 8, cap, row)
        if target == _GB_PORT or source == _GB_PORT:
            return y.GPRS, 0, at + 8
    return y.STOP, y.OK, at + 8


@step
def _gtp(data: Column, at: Any, cap: Any, row: Column) -> tuple[Any, Any, Any]:
    """A user's packet in GTP version 1. What does not look like one stays a UDP packet."""
    if cap - at < 9 or u8(data, at) >> 4 != 3 or u8(data, at + 1) != 255:
        return y.STOP, y.OK, at
    place = at + 8
    if u8(data, at) & 7:
        if cap - place < 4:
            return y.STOP, y.BAD_INNER, at
        following = u8(data, place + 3) if u8(data, at) & 4 else 0
        place += 4
        while following:
            size = u8(data, place) * 4 if cap > place else 0
            if size == 0 or place + size > cap:
                return y.STOP, y.BAD_INNER, at
            following = u8(data, place + size - 1)
            place += size
    if place >= cap or u8(data, place) >> 4 not in (4, 6):
        return y.STOP, y.OK, at
    row[y.TUNNEL] = y.GTP
    row[y.TUNNEL_ID] = be32(data, at + 4)
    return y.IP, 0, place


@step
def _vxlan(data: Column, at: Any, cap: Any, row: Column) -> tuple[Any, Any, Any]:
    if cap - at < 8 or not u8(data, at) & 8:
        return y.STOP, y.OK, at
    row[y.TUNNEL] = y.VXLAN
    row[y.TUNNEL_ID] = be32(data, at + 4) >> 8
    return y.ETHERNET, 0, at + 8


@step
def _geneve(data: Column, at: Any, cap: Any, row: Column) -> tuple[Any, Any, Any]:
    if cap - at < 8 or u8(data, at) >> 6:
        return y.STOP, y.OK, at
    place = at + 8 + (u8(data, at) & 63) * 4
    if place > cap:
        return y.STOP, y.BAD_INNER, at
    row[y.TUNNEL] = y.GENEVE
    row[y.TUNNEL_ID] = be32(data, at + 4) >> 8
    return y.BY_TYPE, be16(data, at + 2), place


@step
def _gre(data: Column, at: Any, cap: Any, row: Column) -> tuple[Any, Any, Any]:
    if cap - at < 4:
        return y.STOP, y.CUT_TRANSPORT, at
    flags, kind = be16(data, at), be16(data, at + 2)
    version, place = flags & 7, at + 4
    if flags & 0xC000 and version == 0:  # checksum or routing bring four bytes
        place += 4
    if flags & 0x2000:
        if cap - place < 4:
            return y.STOP, y.CUT_TRANSPORT, at
        key = be32(data, place)
        row[y.TUNNEL_ID] = key & 0xFFFF if version == 1 else key
        place += 4
    place += 4 if flags & 0x1000 else 0
    place += 4 if version == 1 and flags & 0x80 else 0
    if place > cap:
        return y.STOP, y.CUT_TRANSPORT, at
    row[y.TUNNEL] = y.GRE
    if version == 1:  # PPTP; an acknowledgement carries nothing
        return (y.PPP, 0, place) if kind == 0x880B and flags & 0x1000 else (y.STOP, y.OK, place)
    if kind == _ERSPAN:
        return y.ETHERNET, 0, place + (8 if flags & 0x1000 else 0)
    if kind == _ERSPAN3:
        more = cap - place >= 12 and u8(data, place + 11) & 1
        return y.ETHERNET, 0, place + (20 if more else 12)
    return y.BY_TYPE, kind, place
