"""Numba steps from the link layer to IP: what comes next, its kind, and where.

Each answers (next, value, place); STOP comes with the reason.
"""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, step
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, le32, u8

_IPV4, _IPV6, _VLAN, _QINQ, _QINQ_OLD = 0x0800, 0x86DD, 0x8100, 0x88A8, 0x9100
_MPLS, _MPLS_MANY, _PPPOE, _ETHERNET_IN = 0x8847, 0x8848, 0x8864, 0x6558
_IEEE_802_3 = 1536


@step
def link(data: Column, at: Any, cap: Any, kind: Any) -> tuple[Any, Any, Any]:
    """The first layer of a packet, by the capture's link type."""
    if kind == 192 and cap - at >= 8:  # PPI: a header of its own that names another link type
        kind, at = le32(data, at + 4), at + (le32(data, at) >> 16)
        if at > cap:
            return y.STOP, y.CUT_LINK, cap
    if kind == 1:
        return y.ETHERNET, 0, at
    if kind in (12, 14, 101, 228, 229):
        return y.IP, 0, at
    if kind in (0, 108):
        return _loopback(data, at, cap)
    if kind == 113:
        return (y.BY_TYPE, be16(data, at + 14), at + 16) if cap - at >= 16 else (y.STOP, y.CUT_LINK, at)
    if kind == 276:
        return (y.BY_TYPE, be16(data, at), at + 20) if cap - at >= 20 else (y.STOP, y.CUT_LINK, at)
    if kind in (9, 50):
        return y.PPP, 0, at
    if kind == 51:
        return y.BY_TYPE, _PPPOE, at
    if kind == 104:  # Cisco's HDLC: address, control, Ethernet's types
        return (y.BY_TYPE, be16(data, at + 2), at + 4) if cap - at >= 4 else (y.STOP, y.CUT_LINK, at)
    return y.STOP, y.UNKNOWN_LINK, at


@step
def _loopback(data: Column, at: Any, cap: Any) -> tuple[Any, Any, Any]:
    """BSD's address family, in the order of whatever machine captured it."""
    if cap - at < 4:
        return y.STOP, y.CUT_LINK, at
    family = min(be32(data, at), le32(data, at))
    return (y.IP, 0, at + 4) if family in (2, 10, 24, 28, 30) else (y.STOP, y.NOT_IP, at)


@step
def ethernet(data: Column, at: Any, cap: Any) -> tuple[Any, Any, Any]:
    """Ethernet II, or 802.3 with LLC."""
    if cap - at < 14:
        return y.STOP, y.CUT_LINK, at
    kind = be16(data, at + 12)
    return (y.BY_TYPE, kind, at + 14) if kind >= _IEEE_802_3 else _llc(data, at + 14, cap)


@step
def _llc(data: Column, at: Any, cap: Any) -> tuple[Any, Any, Any]:
    if cap - at < 3:
        return y.STOP, y.CUT_LINK, at
    if be16(data, at) == 0x0606:
        return y.IP, 0, at + 3
    if be16(data, at) == 0xAAAA and cap - at >= 8:
        return y.BY_TYPE, be16(data, at + 6), at + 8
    return y.STOP, y.NOT_IP, at


@step
def by_type(data: Column, at: Any, cap: Any, kind: Any, row: Column) -> tuple[Any, Any, Any]:
    """What an Ethernet type announces; tags and labels are written down."""
    row[y.ETHERTYPE] = kind
    if kind in (_IPV4, _IPV6):
        return y.IP, 4 if kind == _IPV4 else 6, at
    if kind in (_VLAN, _QINQ, _QINQ_OLD):
        return _vlan(data, at, cap, row)
    if kind in (_MPLS, _MPLS_MANY):
        return _mpls(data, at, cap, row)
    if kind == _PPPOE:
        return (y.PPP, 0, at + 6) if cap - at >= 6 else (y.STOP, y.CUT_LINK, at)
    if kind == _ETHERNET_IN:
        return y.ETHERNET, 0, at
    if kind < _IEEE_802_3:  # a length behind a tag; cooked captures say 4 for 802.2
        return _llc(data, at, cap)
    return y.STOP, y.NOT_IP, at


@step
def _vlan(data: Column, at: Any, cap: Any, row: Column) -> tuple[Any, Any, Any]:
    if cap - at < 4:
        return y.STOP, y.CUT_LINK, at
    tag = be16(data, at) & 0xFFF
    if row[y.VLAN] == 0:
        row[y.VLAN] = tag
    elif row[y.INNER_VLAN] == 0:
        row[y.INNER_VLAN] = tag
    return y.BY_TYPE, be16(data, at + 2), at + 4


@step
def _mpls(data: Column, at: Any, cap: Any, row: Column) -> tuple[Any, Any, Any]:
    """All labels at once. What follows is not announced: its first half byte tells IP from a pseudowire."""
    while cap - at >= 4:
        entry = be32(data, at)
        if row[y.MPLS] == 0:
            row[y.MPLS] = entry >> 12
        at += 4
        if entry & 0x100:
            nibble = u8(data, at) >> 4 if cap > at else 15
            if nibble in (4, 6):
                return y.IP, 0, at
            return (y.ETHERNET, 0, at + 4) if nibble == 0 else (y.STOP, y.NOT_IP, at)
    return y.STOP, y.CUT_LINK, at


@step
def ppp(data: Column, at: Any, cap: Any) -> tuple[Any, Any, Any]:
    """PPP, with or without HDLC's two bytes and with a protocol of one or two bytes."""
    if cap - at >= 2 and (be16(data, at) == 0xFF03 or u8(data, at) in (0x0F, 0x8F)):
        if u8(data, at) != 0xFF and cap - at >= 4:  # Cisco's HDLC under the same link type
            return y.BY_TYPE, be16(data, at + 2), at + 4
        at += 2
    if cap - at < 2:
        return y.STOP, y.CUT_LINK, at
    kind = u8(data, at)
    if kind & 1:
        at += 1
    else:
        kind, at = be16(data, at), at + 2
    if kind == 0x21 or kind == 0x57:
        return y.IP, 4 if kind == 0x21 else 6, at
    return (y.BY_TYPE, _MPLS, at) if kind == 0x281 else (y.STOP, y.NOT_IP, at)
