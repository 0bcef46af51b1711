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
_GTP_PORT = 2152
_WINDOW, _CLIENT_TTL, _SERVER_TTL = 64_240, 64, 57
_V6_SERVERS = 0x2001_0DB8_FFFF_0000
_ALL_ONES = 0xFFFF


@step
def put_ipv4(
    out: Column, at: Any, total: Any, identity: Any, fragment: Any, protocol: Any, ttl: Any, src: Any, dst: Any
) -> None:
    """An IPv4 header with its checksum."""
    out[at], out[at + 1] = 0x45, 0
    put16(out, at + 2, total)
    put16(out, at + 4, identity)
    put16(out, at + 6, fragment)
    out[at + 8], out[at + 9] = ttl, protocol
    put16(out, at + 10, 0)
    put32(out, at + 12, src)
    put32(out, at + 16, dst)
    put16(out, at + 10, folded(word_sum(out, at, IPV4)))


@step
def put_ethernet(out: Column, at: Any, direction: Any, kind: Any) -> None:
    """An Ethernet header between two fixed stations."""
    for k in range(12):
        out[at + k] = 0
    out[at] = out[at + 6] = 2
    out[at + 5], out[at + 11] = 2 - direction, 1 + direction
    put16(out, at + 12, kind)


@step
def _put_inner_ip(
    out: Column, at: Any, row: Column, size: Any, protocol: Any, direction: Any, identity: Any
) -> Any:
    """The subscriber's IP header; gives the sum of the pseudo header for what follows."""
    ttl = _SERVER_TTL if direction else _CLIENT_TTL
    client, server = row[_CLIENT_IP], row[_SERVER_IP]
    if row[_VERSION] == 4:
        src, dst = (server, client) if direction else (client, server)
        fragment = 0x4000 if protocol == _TCP else 0
        put_ipv4(out, at, IPV4 + size, identity, fragment, protocol, ttl, src, dst)
        return word_sum(out, at + 12, 8) + protocol + size
    put32(out, at, 6 << 28 | (row[_HASH] & 0xFFFFF))
    put16(out, at + 4, size)
    out[at + 6], out[at + 7] = protocol, ttl
    mine, theirs = (at + 24, at + 8) if direction else (at + 8, at + 24)
    put64(out, mine, row[_V6_HIGH])
    put64(out, mine + 8, row[_V6_LOW])
    put64(out, theirs, _V6_SERVERS)
    put64(out, theirs + 8, server)
    return word_sum(out, at + 8, 32) + protocol + size


@step
def _put_transport(
    out: Column, at: Any, row: Column, script: Column, size: Any, pseudo: Any, data_sum: Any
) -> None:
    """A TCP or UDP header with its checksum."""
    direction, is_second = script[c.DIRECTION], script[c.CONVERSATION] == 1
    client = row[_CLIENT_MEDIA] if is_second else row[_CLIENT_PORT]
    server = script[c.SERVER_PORT] if script[c.SERVER_PORT] else row[_SERVER_MEDIA]
    src, dst = (server, client) if direction else (client, server)
    put16(out, at, src)
    put16(out, at + 2, dst)
    if script[c.PROTOCOL] == _UDP:
        put16(out, at + 4, size)
        put16(out, at + 6, 0)
        checksum = folded(pseudo + data_sum + word_sum(out, at, UDP_HEADER))
        put16(out, at + 6, checksum if checksum else _ALL_ONES)
        return
    mine, theirs = row[_CLIENT_ISN], row[_SERVER_ISN]
    if direction:
        mine, theirs = theirs, mine
    put32(out, at + 4, mine + script[c.SEQ])
    put32(out, at + 8, theirs + script[c.ACK] if script[c.FLAGS] & _ACK else 0)
    out[at + 12], out[at + 13] = (TCP_HEADER + script[c.OPTION_BYTES]) // 4 << 4, script[c.FLAGS]
    put16(out, at + 14, _WINDOW)
    put32(out, at + 16, 0)
    put16(out, at + 16, folded(pseudo + data_sum + word_sum(out, at, TCP_HEADER)))


@step
def _put_tunnel(
    out: Column, at: Any, row: Column, direction: Any, inner: Any, inner_sum: Any, identity: Any
) -> None:
    """GTP-U in UDP in IPv4 around a packet whose words have the given sum."""
    up = direction == 0
    src, dst = (row[_SERVING_IP], row[_GATEWAY_IP]) if up else (row[_GATEWAY_IP], row[_SERVING_IP])
    size = UDP_HEADER + GTP_HEADER + inner
    put_ipv4(out, at, IPV4 + size, identity, 0, _UDP, 255, src, dst)
    udp, gtp = at + IPV4, at + IPV4 + UDP_HEADER
    put16(out, udp, _GTP_PORT)
    put16(out, udp + 2, _GTP_PORT)
    put16(out, udp + 4, size)
    put16(out, udp + 6, 0)
    put16(out, gtp, 0x30FF)
    put16(out, gtp + 2, inner)
    put32(out, gtp + 4, row[_TEID_UP] if up else row[_TEID_DOWN])
    pseudo = word_sum(out, at + 12, 8) + _UDP + size
    checksum = folded(pseudo + word_sum(out, udp, UDP_HEADER + GTP_HEADER) + inner_sum)
    put16(out, udp + 6, checksum if checksum else _ALL_ONES)


@step
def put_frame(
    out: Column, at: Any, row: Column, script: Column, identity: Any, patches: Column, arena: Column
) -> Any:
    """Build a whole frame; gives its length."""
    ip = at + ETHERNET + (TUNNEL if row[_TUNNELLED] else 0)
    ip_header = IPV4 if row[_VERSION] == 4 else IPV6
    header = TCP_HEADER if script[c.PROTOCOL] == _TCP else UDP_HEADER
    data, length = ip + ip_header + header, script[c.LENGTH]
    place = script[c.PLACE]
    for k in range(length):
        out[np.uint64(data + k)] = arena[np.uint64(place + k)]
    data_sum = script[c.SUM]
    if script[c.PATCHES]:
        for k in range(script[c.FIRST_PATCH], script[c.FIRST_PATCH] + script[c.PATCHES]):
            put_patch(out, data + patches[k, 0], patches[k, 0], patches[k, 1], patches[k, 3], row[patches[k, 2]])
        data_sum = word_sum(out, data, length)
    size, direction = header + length, script[c.DIRECTION]
    pseudo = _put_inner_ip(out, ip, row, size, script[c.PROTOCOL], direction, identity)
    _put_transport(out, ip + ip_header, row, script, size, pseudo, data_sum)
    if row[_TUNNELLED]:
        # What follows the IP header sums up to the inverse of its pseudo header: that is what checksums do.
        inner_sum = word_sum(out, ip, ip_header) + (folded(pseudo))
        _put_tunnel(out, at + ETHERNET, row, direction, ip_header + size, inner_sum, identity)
    put_ethernet(out, at, direction, 0x0800 if row[_TUNNELLED] or row[_VERSION] == 4 else 0x86DD)
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
