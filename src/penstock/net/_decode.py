"""The numba kernels that decode indexed packets into columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, u8
from penstock.net._gb import gb
from penstock.net._links import by_type, ethernet, link, ppp
from penstock.net._network import MAPPED, ip
from penstock.net._prefetch import PACKETS_AHEAD, fetch, fetch_head
from penstock.net._transport import is_tunnel, transport

TCP, UDP, _WITHOUT_OPTIONS = 6, 17, 0x45
_WHOLE = 12  # bytes that fit into a view itself
MOST_VIEWED = (1 << 31) - 1
"""The furthest place that a view can name: Arrow has 32 bits for it, one of them for the sign."""


@step
def decode_one(
    data: Column, begin: Any, captured: Any, length: Any, link_type: Any, most_tunnels: Any, row: Column
) -> None:
    """Decode a packet into a row of zeros; ends after MOST_LAYERS whatever it holds.

    A single row of one width: each array that a step takes costs seven words at each call.
    """
    cap, wire = begin + captured, begin + max(captured, length)
    following, value, at = link(data, begin, cap, link_type)
    for _ in range(y.MOST_LAYERS):
        if following == y.STOP:
            break
        if following == y.ETHERNET:
            following, value, at = ethernet(data, at, cap)
        elif following == y.BY_TYPE:
            following, value, at = by_type(data, at, cap, value, row)
        elif following == y.IP:
            following, value, at, cap, wire = ip(data, at, cap, wire, value, row)
        elif following == y.PPP:
            following, value, at = ppp(data, at, cap)
        elif following == y.GPRS:
            following, value, at, cap, wire = gb(data, at, cap, wire, row)
        else:
            descend = row[y.DEPTH] < most_tunnels
            following, value, at = transport(data, at, cap, wire, value, descend, row)
    if following != y.STOP:
        value = y.TOO_DEEP
    elif row[y.VERSION] != 0 and y.CUT_LINK <= value <= y.BAD_LENGTH:
        value = y.BAD_INNER  # behind an IP header these are about the packet inside
    if value != y.OK:
        row[y.REASON] = value
    row[y.PAYLOAD_OFFSET] = min(at - begin, max(captured, length))  # a cut header may claim to end later
    row[y.PAYLOAD_LENGTH] = max(0, wire - at)


@step
def plain_protocol(
    data: Column, at: Any, captured: Any, length: Any, link_type: Any, most_tunnels: Any
) -> Any:
    """The protocol of a sound TCP or UDP packet right in IPv4 in Ethernet, by far the most common; else 0."""
    if link_type != 1 or captured < 42 or be16(data, at + 12) != 0x0800:
        return 0
    total = be16(data, at + 16)
    if u8(data, at + 14) != _WITHOUT_OPTIONS or total + 14 > length or be16(data, at + 20) & 0x3FFF:
        return 0
    protocol = u8(data, at + 23)
    if protocol == TCP:
        header = 20 + (u8(data, at + 46) >> 4) * 4 if captured >= 54 else 0
        return TCP if 40 <= header <= total else 0
    if protocol == UDP and total >= 28 and be16(data, at + 38) >= 8:
        return 0 if most_tunnels and is_tunnel(be16(data, at + 34), be16(data, at + 36)) else UDP
    return 0


@step
def plain_protocol6(
    data: Column, at: Any, captured: Any, length: Any, link_type: Any, most_tunnels: Any
) -> Any:
    """As `plain_protocol`, for IPv6 without extension headers."""
    if link_type != 1 or captured < 62 or be16(data, at + 12) != 0x86DD or u8(data, at + 14) >> 4 != 6:
        return 0
    protocol, payload = u8(data, at + 20), be16(data, at + 18)
    if payload + 54 > length:
        return 0
    if protocol == TCP:
        header = (u8(data, at + 66) >> 4) * 4 if captured >= 74 else 0
        return TCP if 20 <= header <= payload else 0
    if protocol == UDP and payload >= 8 and be16(data, at + 58) >= 8:
        return 0 if most_tunnels and is_tunnel(be16(data, at + 54), be16(data, at + 56)) else UDP
    return 0


@bounded(
    "places.shape[0] == 3 and lengths.shape == kinds.shape == (2, places.shape[1])",
    "wide.shape == (y.WIDE, places.shape[1]) and long.shape == (y.LONG - y.WIDE, places.shape[1])",
    "short.shape == (y.SHORT - y.LONG, places.shape[1]) and tiny.shape == (y.ROW - y.SHORT, places.shape[1])",
)
@kernel
def decode(
    data: Column, places: Column, lengths: Column, kinds: Column, most_tunnels: int,
    wide: Column, long: Column, short: Column, tiny: Column,
) -> None:  # fmt: skip
    """Decode all packets of a block; the four outputs have one row per column of their width, all zero."""
    row = np.zeros(y.ROW, np.int64)
    last = places.shape[1] - 1
    for i in range(places.shape[1]):
        fetch_head(data, places[1, min(i + PACKETS_AHEAD, last)])
        begin, captured, length = places[1, i], np.int64(lengths[0, i]), np.int64(lengths[1, i])
        protocol = plain_protocol(data, begin, captured, length, kinds[1, i], most_tunnels)
        if protocol:
            _write_plain(data, begin, protocol, i, wide, long, short, tiny)
        else:
            row[:] = 0
            decode_one(data, begin, captured, length, kinds[1, i], most_tunnels, row)
            _write(row, i, wide, long, short, tiny)


@step
def _write(row: Column, i: Any, wide: Column, long: Column, short: Column, tiny: Column) -> None:
    for k in range(y.WIDE):
        wide[k, i] = row[k]
    for k in range(y.LONG - y.WIDE):
        long[k, i] = row[y.WIDE + k]
    for k in range(y.SHORT - y.LONG):
        short[k, i] = row[y.LONG + k]
    for k in range(y.ROW - y.SHORT):
        tiny[k, i] = row[y.SHORT + k]


@step
def _write_plain(
    data: Column, at: Any, protocol: Any, i: Any, wide: Column, long: Column, short: Column, tiny: Column
) -> None:
    """The columns of a packet that `plain_protocol` has checked."""
    wide[y.SRC_LOW, i] = MAPPED | be32(data, at + 26)
    wide[y.DST_LOW, i] = MAPPED | be32(data, at + 30)
    total, header = be16(data, at + 16), 28
    short[y.ETHERTYPE - y.LONG, i] = 0x0800
    short[y.SRC_PORT - y.LONG, i] = be16(data, at + 34)
    short[y.DST_PORT - y.LONG, i] = be16(data, at + 36)
    tiny[y.VERSION - y.SHORT, i] = 4
    tiny[y.PROTOCOL - y.SHORT, i] = protocol
    tiny[y.TOS - y.SHORT, i] = u8(data, at + 15)
    tiny[y.TTL - y.SHORT, i] = u8(data, at + 22)
    if protocol == TCP:
        header = 20 + (u8(data, at + 46) >> 4) * 4
        tiny[y.FLAGS - y.SHORT, i] = u8(data, at + 47)
        short[y.TCP_WINDOW - y.LONG, i] = be16(data, at + 48)
        long[y.TCP_SEQ - y.WIDE, i] = be32(data, at + 38)
        long[y.TCP_ACK - y.WIDE, i] = be32(data, at + 42)
    long[y.IP_LENGTH - y.WIDE, i] = total
    long[y.PAYLOAD_OFFSET - y.WIDE, i] = 14 + header
    long[y.PAYLOAD_LENGTH - y.WIDE, i] = total - header


@bounded(
    "len(lengths) == len(places) and out.shape == (len(places), 4)",
    "len(data) <= MOST_VIEWED",
)
@kernel
def views(data: Column, places: Column, lengths: Column, out: Column) -> None:
    """Where the bytes of each packet lie, in the form of Arrow's views: length, first four bytes, 0, place.

    Short ones are in the view itself.
    """
    for i in range(len(places)):
        fetch(data, places[min(i + PACKETS_AHEAD, len(places) - 1)])
        at, size = places[i], np.int64(lengths[i])
        out[i, 0] = lengths[i]
        whole = size <= _WHOLE
        for word in range(3 if whole else 1):
            value = np.uint32(0)
            for k in range(4):
                if 4 * word + k < size:
                    value |= np.uint32(data[at + 4 * word + k]) << np.uint32(8 * k)
            out[i, 1 + word] = value
        if not whole:
            out[i, 2], out[i, 3] = 0, at
