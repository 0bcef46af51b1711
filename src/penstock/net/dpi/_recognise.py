"""The kernel of the built-in engine: what the first packets of a flow say it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net.dpi import records as r
from penstock.net.dpi._hellos import NO, YES, dns, http, short, tls
from penstock.net.dpi._protocols import CODE, EITHER, SIGNATURES, TCP, UDP
from penstock.net.dpi._streams import stream
from penstock.net.dpi.records import record_end

HOST = 256
_ANY = ord("?")
_SIZE = max(len(content) for *_, content in SIGNATURES)
CODES = np.array([CODE[name] for name, *_ in SIGNATURES], np.int64)
KINDS = np.array(
    [(transport, speaker, len(content)) for _, transport, speaker, content in SIGNATURES], np.int64
)
BYTES = np.zeros((len(SIGNATURES), _SIZE), np.uint8)
for _place, (*_rest, _content) in enumerate(SIGNATURES):
    BYTES[_place, : len(_content)] = np.frombuffer(_content, np.uint8)
_TLS, _HTTP, _DNS, _QUIC, _STUN, _RTP, _RTCP = (
    CODE[name] for name in ("TLS", "HTTP", "DNS", "QUIC", "STUN", "RTP", "RTCP")
)
_MDNS, _LLMNR, _NETBIOS, _DHCP, _NTP, _SNMP = (
    CODE[name] for name in ("MDNS", "LLMNR", "NetBIOS", "DHCP", "NTP", "SNMP")
)
_SMTP, _FTP, _IPSEC, _GTP, _WIREGUARD = (
    CODE[name] for name in ("SMTP", "FTP_CONTROL", "IPSec", "GTP", "WireGuard")
)


@step
def opening(data: Any, begin: Any, stop: Any, transport: Any, speaker: Any) -> Any:
    """The application whose first bytes these are; 0 if there is none."""
    for s in range(len(CODES)):
        if (KINDS[s, 0] == 0 or KINDS[s, 0] == transport) and (
            KINDS[s, 1] == EITHER or KINDS[s, 1] == speaker
        ):
            size = KINDS[s, 2]
            k = 0
            while k < size and begin + k < stop and (BYTES[s, k] == _ANY or BYTES[s, k] == data[begin + k]):
                k += 1
            if k == size:
                return CODES[s]
    return np.int64(0)


@step
def says(data: Any, size: Any, word: Any) -> Any:
    """Whether the first line has this word."""
    at = 0
    while at + len(word) <= size and data[at] != 10:
        k = 0
        while k < len(word) and data[at + k] == word[k]:
            k += 1
        if k == len(word):
            return True
        at += 1
    return False


@step
def of_stream(
    client: Any, asked: Any, server: Any, answered: Any, src: Any, dst: Any
) -> tuple[Any, Any, Any, Any]:
    """What a TCP stream is: (application, whether all is said, begin and length of the client's host)."""
    state, begin, size = tls(client, asked)
    if state != NO:
        return _TLS, state == YES, begin, size
    state, begin, size = http(client, asked)
    if state != NO:
        return _HTTP, state == YES, begin, size
    if (src == 53 or dst == 53) and asked > 2:
        state, begin, size = dns(client, np.int64(2), asked)
        if state != NO:
            return _DNS, True, begin, size
    code = opening(client, np.int64(0), asked, TCP, 0)
    if code == 0:
        code = opening(server, np.int64(0), answered, TCP, 1)
    if code == 0 and answered > 4 and server[0] == 50 and server[1] == 50 and server[2] == 48:
        if says(server, answered, b"SMTP"):
            code = np.int64(_SMTP)
        elif says(server, answered, b"FTP"):
            code = np.int64(_FTP)
    if code == 0 and tls(server, answered)[0] != NO:
        code = np.int64(_TLS)
    return code, code != 0, 0, 0


@step
def of_datagram(data: Any, at: Any, stop: Any, src: Any, dst: Any) -> tuple[Any, Any, Any]:
    """What a payload in UDP is: (application, begin and length of the host)."""
    size = stop - at
    by_name = (53, 5353, 5355, 137)
    for k in range(4):
        port = by_name[k]
        if src == port or dst == port:
            state, begin, length = dns(data, at, stop)
            if state != NO:
                return (_DNS, _MDNS, _LLMNR, _NETBIOS)[k], begin, length if k != 3 else 0
    if (
        size >= 20
        and data[at] < 64
        and short(data, at + 4, stop) == 0x2112
        and short(data, at + 6, stop) == 0xA442
    ):
        return _STUN, 0, 0
    if size >= 240 and short(data, at + 236, stop) == 0x6382 and short(data, at + 238, stop) == 0x5363:
        return _DHCP, 0, 0
    if (src == 123 or dst == 123) and size >= 48 and data[at] & 7:
        return _NTP, 0, 0
    if (dst in (161, 162) or src in (161, 162)) and size > 10 and data[at] == 0x30:
        return _SNMP, 0, 0
    if (dst == 500 or src == 500) and size >= 28 and data[at + 17] in (0x10, 0x20):
        return _IPSEC, 0, 0
    if (dst in (2123, 2152) or src in (2123, 2152)) and size >= 8 and data[at] >> 5 in (1, 2):
        return _GTP, 0, 0
    if size == 148 and short(data, at, stop) == 0x0100 and short(data, at + 2, stop) == 0:
        return _WIREGUARD, 0, 0
    if size >= 1200 and data[at] & 0xC0 == 0xC0 and is_quic(data, at + 1, stop):
        return _QUIC, 0, 0
    return opening(data, at, stop, UDP, 0), 0, 0


@step
def is_quic(data: Any, at: Any, stop: Any) -> Any:
    """Version 1 or 2, a draft of the IETF's, or one of Google's."""
    high, low = short(data, at, stop), short(data, at + 2, stop)
    return (
        (high == 0 and low == 1)
        or (high == 0x6B33 and low == 0x43CF)
        or (high == 0xFF00 and low <= 0x40)
        or (high >> 8 in (0x51, 0x54) and 0x30 <= high & 255 <= 0x39)
        or (high == 0xFACE and low >> 8 == 0xB0)
    )


@step
def is_rtp(data: Any, at: Any, size: Any) -> Any:
    """Whether it may be RTP or RTCP, by its first two bytes: 1, 2; 0 if it is neither."""
    if size < 12 or data[at] >> 6 != 2:
        return 0
    if 200 <= data[at + 1] <= 207:
        return 2
    kind = data[at + 1] & 127
    return 1 if kind < 35 or kind >= 96 else 0


@step
def of_media(data: Any, begin: Any, stop: Any) -> Any:
    """RTP shows in two packets of one direction: one source, numbers that follow each other."""
    source = np.zeros(2, np.int64)
    number = np.full(2, -1, np.int64)
    controls = 0
    at = begin
    end = record_end(data, at, stop)
    while end >= 0:
        place, way = at + r.HEAD, np.int64(data[at + r.IS_REPLY] & 1)
        kind = is_rtp(data, place, end - place)
        controls += kind == 2
        if kind == 1:
            now = short(data, place + 2, end)
            ssrc = short(data, place + 8, end) << 16 | short(data, place + 10, end)
            if number[way] >= 0 and source[way] == ssrc and 0 < (now - number[way]) & 0xFFFF <= 3:
                return np.int64(_RTP)
            number[way], source[way] = now, ssrc
        at = end
        end = record_end(data, at, stop)
    return np.int64(_RTCP) if controls > 1 else np.int64(0)


@bounded(
    "ends[-1] <= len(data) and hosts.shape == (len(ends) - 1, HOST)",
    "len(ends) - 1 == len(src_port) == len(dst_port) == len(protocol)",
    "len(ends) - 1 == len(codes) == len(is_said) == len(host_sizes)",
)
@kernel
def recognise(
    data: Column, ends: Column, src_port: Column, dst_port: Column, protocol: Column, codes: Column,
    is_said: Column, hosts: Column, host_sizes: Column, client: Column, server: Column,
) -> None:  # fmt: skip
    """The application of each flow, whether all is said, and its host."""
    for f in range(len(ends) - 1):
        begin, stop = ends[f], ends[f + 1]
        src, dst = np.int64(src_port[f]), np.int64(dst_port[f])
        if protocol[f] == TCP:
            way = data[begin + r.IS_REPLY] & 1 if begin + r.HEAD <= stop else 0
            asked = stream(data, begin, stop, way, client)
            answered = stream(data, begin, stop, 1 - way, server)
            code, said, at, size = of_stream(client, asked, server, answered, src, dst)
            if code == 0 and answered > 0:  # perhaps the first packet seen was an answer
                code, said, at, size = of_stream(server, answered, client, asked, dst, src)
                copy_host(server, at, min(size, answered - at), f, hosts, host_sizes)
            else:
                copy_host(client, at, min(size, asked - at), f, hosts, host_sizes)
            codes[f], is_said[f] = code, said
        elif protocol[f] == UDP:
            at = begin
            end = record_end(data, at, stop)
            while end >= 0 and codes[f] == 0:
                code, host, size = of_datagram(data, at + r.HEAD, end, src, dst)
                codes[f] = code
                copy_host(data, host, size, f, hosts, host_sizes)
                at = end
                end = record_end(data, at, stop)
            if codes[f] == 0:
                codes[f] = of_media(data, begin, stop)
            is_said[f] = codes[f] != 0


@step
def copy_host(data: Any, at: Any, size: Any, f: Any, hosts: Any, sizes: Any) -> None:
    sizes[f] = min(max(size, 0), HOST)
    for k in range(sizes[f]):
        hosts[f, k] = data[at + k]
