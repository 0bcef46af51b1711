"""Steps that build one frame from a step of a script and the registers of its exchange."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, step
from penstock.net.synth import catalogue as c
from penstock.net.synth._patch import folded, put16, put32, put64, put_patch, word_sum
from penstock.net.synth.message import Register

_HASH, _TUNNELLED, _VERSION = int(Register.HASH), int(Register.IS_TUNNELLED), int(Register.VERSION)
_CLIENT_ISN, _SERVER_ISN = int(Register.CLIENT_ISN), int(Register.SERVER_ISN)
_CLIENT_IP, _SERVER_IP = int(Register.CLIENT_IP), int(Register.SERVER_IP)
_CLIENT_PORT, _CLIENT_MEDIA = int(Register.CLIENT_PORT), int(Register.CLIENT_MEDIA_PORT)
_SERVER_MEDIA = int(Register.SERVER_MEDIA_PORT)
_V6_HIGH, _V6_LOW = int(Register.V6_HIGH), int(Register.V6_LOW)
_TEID_UP, _TEID_DOWN = int(Register.TEID_UP), int(Register.TEID_DOWN)
_SERVING_IP, _GATEWAY_IP = int(Register.SERVING_IP), int(Register.GATEWAY_IP)
_TCP, _UDP, _ACK = 6, 17, 16
ETHERNET, IPV4, IPV6, TCP_HEADER, UDP_HEADER, GTP_HEADER = 14, 20, 40, 20, 8, 8
TUNNEL = IPV4 + UDP_HEADER + GTP_HEADER
_GTP_PORT, _GTP_FLAGS = 2152, 0x30FF
_WINDOW, _CLIENT_TTL, _SERVER_TTL = 64_240, 64, 57
_V6_SERVERS = 0x2001_0DB8_FFFF_0000
_ALL_ONES = 0xFFFF


@step
def address_sum(address: Any) -> Any:
    """The sum of an IPv4 address's two words."""
    return (address >> 16) + (address & 0xFFFF)


@step
def put_ipv4(
    out: Column,
    at: Any,
    total: Any,
    identity: Any,
    fragment: Any,
    protocol: Any,
    ttl: Any,
    src: Any,
    dst: Any,
) -> None:
    """An IPv4 header with its checksum."""
    put16(out, at, 0x4500)
    put16(out, at + 2, total)
    put16(out, at + 4, identity)
    put16(out, at + 6, fragment)
    put16(out, at + 8, ttl << 8 | protocol)
    words = 0x4500 + total + identity + fragment + (ttl << 8 | protocol) + address_sum(src) + address_sum(dst)
    put16(out, at + 10, folded(words))
    put32(out, at + 12, src)
    put32(out, at + 16, dst)


@step
def put_ethernet(out: Column, at: Any, direction: Any, kind: Any) -> None:
    """An Ethernet header between two fixed stations."""
    put32(out, at, 0x02000000)
    put32(out, at + 4, (2 - direction) << 16 | 0x0200)
    put32(out, at + 8, 1 + direction)
    put16(out, at + 12, kind)


@step
def put_ports(out: Column, at: Any, src: Any, dst: Any) -> None:
    """The first four bytes of TCP and UDP."""
    put16(out, at, src)
    put16(out, at + 2, dst)


@step
def put_udp(out: Column, at: Any, src: Any, dst: Any, size: Any, others: Any) -> None:
    """A UDP header; ``others`` is the sum of the words of the pseudo header and of the data."""
    put_ports(out, at, src, dst)
    put16(out, at + 4, size)
    checksum = folded(others + src + dst + size)
    put16(out, at + 6, checksum if checksum else _ALL_ONES)


@step
def put_tcp(
    out: Column, at: Any, src: Any, dst: Any, seq: Any, ack: Any, offset_and_flags: Any, others: Any
) -> None:
    """A TCP header; ``others`` is as for UDP."""
    put_ports(out, at, src, dst)
    put32(out, at + 4, seq)
    put32(out, at + 8, ack)
    put16(out, at + 12, offset_and_flags)
    put16(out, at + 14, _WINDOW)
    words = src + dst + address_sum(seq) + address_sum(ack) + offset_and_flags + _WINDOW
    put16(out, at + 16, folded(others + words))
    put16(out, at + 18, 0)


@step
def _put_user_ip(
    out: Column, at: Any, x: Column, e: Any, size: Any, protocol: Any, direction: Any, identity: Any
) -> tuple[Any, Any]:
    """The subscriber's IP header; gives the sums of the pseudo header for what follows and of the header."""
    ttl = _SERVER_TTL if direction else _CLIENT_TTL
    client, server = x[e, _CLIENT_IP], x[e, _SERVER_IP]
    if x[e, _VERSION] == 4:
        src, dst = (server, client) if direction else (client, server)
        put_ipv4(out, at, IPV4 + size, identity, 0x4000 if protocol == _TCP else 0, protocol, ttl, src, dst)
        return address_sum(src) + address_sum(dst) + protocol + size, np.int64(_ALL_ONES)
    label = x[e, _HASH] & 0xFFFFF
    put32(out, at, 6 << 28 | label)
    put16(out, at + 4, size)
    put16(out, at + 6, protocol << 8 | ttl)
    mine, theirs = (at + 24, at + 8) if direction else (at + 8, at + 24)
    high, low = x[e, _V6_HIGH], x[e, _V6_LOW]
    put64(out, mine, high)
    put64(out, mine + 8, low)
    put64(out, theirs, _V6_SERVERS)
    put64(out, theirs + 8, server)
    ends = _sum64(high) + _sum64(low) + _sum64(_V6_SERVERS) + address_sum(server)
    return ends + protocol + size, ends + address_sum(6 << 28 | label) + size + (protocol << 8 | ttl)


@step
def _sum64(value: Any) -> Any:
    return address_sum(value >> 32) + address_sum(value & 0xFFFFFFFF)


@step
def _put_transport(
    out: Column, at: Any, x: Column, e: Any, steps: Column, i: Any, size: Any, others: Any
) -> None:
    """A TCP or UDP header with its checksum."""
    direction = steps[i, c.DIRECTION]
    client = x[e, _CLIENT_MEDIA] if steps[i, c.CONVERSATION] else x[e, _CLIENT_PORT]
    server = steps[i, c.SERVER_PORT] if steps[i, c.SERVER_PORT] else x[e, _SERVER_MEDIA]
    src, dst = (server, client) if direction else (client, server)
    if steps[i, c.PROTOCOL] == _UDP:
        put_udp(out, at, src, dst, size, others)
        return
    mine, theirs = x[e, _CLIENT_ISN], x[e, _SERVER_ISN]
    if direction:
        mine, theirs = theirs, mine
    flags = steps[i, c.FLAGS]
    seq = mine + steps[i, c.SEQ] & 0xFFFFFFFF
    ack = theirs + steps[i, c.ACK] & 0xFFFFFFFF if flags & _ACK else np.int64(0)
    header = (TCP_HEADER + steps[i, c.OPTION_BYTES]) // 4
    put_tcp(out, at, src, dst, seq, ack, header << 12 | flags, others)


@step
def _put_tunnel(
    out: Column, at: Any, x: Column, e: Any, direction: Any, inner: Any, inner_sum: Any, identity: Any
) -> None:
    """GTP-U in UDP in IPv4 around a packet whose words have the given sum."""
    src, dst, teid = x[e, _SERVING_IP], x[e, _GATEWAY_IP], x[e, _TEID_UP]
    if direction:
        src, dst, teid = dst, src, x[e, _TEID_DOWN]
    size, gtp = UDP_HEADER + GTP_HEADER + inner, at + IPV4 + UDP_HEADER
    put_ipv4(out, at, IPV4 + size, identity, 0, _UDP, 255, src, dst)
    put16(out, gtp, _GTP_FLAGS)
    put16(out, gtp + 2, inner)
    put32(out, gtp + 4, teid)
    others = address_sum(src) + address_sum(dst) + _UDP + size + _GTP_FLAGS + inner + address_sum(teid)
    put_udp(out, at + IPV4, _GTP_PORT, _GTP_PORT, size, others + inner_sum)


@step
def put_frame(
    out: Column,
    at: Any,
    x: Column,
    e: Any,
    steps: Column,
    i: Any,
    identity: Any,
    patches: Column,
    arena: Column,
) -> Any:
    """Build a whole frame; gives its length.

    Rows are given as a table and a number: a view of a row costs more than all that is read from it.
    """
    is_tunnelled, is_four = x[e, _TUNNELLED], x[e, _VERSION] == 4
    ip = at + ETHERNET + (TUNNEL if is_tunnelled else 0)
    ip_header = IPV4 if is_four else IPV6
    header = TCP_HEADER if steps[i, c.PROTOCOL] == _TCP else UDP_HEADER
    data, length, place = ip + ip_header + header, steps[i, c.LENGTH], steps[i, c.PLACE]
    for k in range(length):
        out[np.uint64(data + k)] = arena[np.uint64(place + k)]
    data_sum, many = steps[i, c.SUM], steps[i, c.PATCHES]
    if many:
        for k in range(steps[i, c.FIRST_PATCH], steps[i, c.FIRST_PATCH] + many):
            inside = patches[k, 0]
            put_patch(out, data + inside, inside, patches[k, 1], patches[k, 3], x[e, patches[k, 2]])
        data_sum = word_sum(out, data, length)
    size, direction = header + length, steps[i, c.DIRECTION]
    pseudo, ip_sum = _put_user_ip(out, ip, x, e, size, steps[i, c.PROTOCOL], direction, identity)
    _put_transport(out, ip + ip_header, x, e, steps, i, size, pseudo + data_sum)
    if is_tunnelled:
        # What follows the IP header sums up to the inverse of its pseudo header: that is what checksums do.
        inner_sum = ip_sum + folded(pseudo)
        _put_tunnel(out, at + ETHERNET, x, e, direction, ip_header + size, inner_sum, identity)
    put_ethernet(out, at, direction, 0x0800 if is_tunnelled or is_four else 0x86DD)
    return data + length - at


@step
def keep_fragment(out: Column, at: Any, length: Any, is_first: Any) -> Any:
    """Cut the outermost IPv4 packet of a frame down to one of its two fragments; gives the new length."""
    begin = at + ETHERNET + IPV4
    size = length - ETHERNET - IPV4
    first = (size // 2 + 7) // 8 * 8
    kept = first if is_first else size - first
    if not is_first:
        for k in range(kept):
            out[begin + k] = out[begin + first + k]
    ip = at + ETHERNET
    put16(out, ip + 2, IPV4 + kept)
    put16(out, ip + 6, 0x2000 if is_first else first // 8)
    put16(out, ip + 10, 0)
    put16(out, ip + 10, folded(word_sum(out, ip, IPV4)))
    return ETHERNET + IPV4 + kept
