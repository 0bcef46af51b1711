"""The kernel that writes header traces: packets of very many flows at once, cut behind their headers."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net.synth import _settings as s
from penstock.net.synth._fill import header_bytes, see, wrap
from penstock.net.synth._frame import (
    ETHERNET,
    IPV4,
    TCP_HEADER,
    UDP_HEADER,
    address_sum,
    put_ethernet,
    put_ipv4,
    put_tcp,
    put_udp,
)
from penstock.net.synth._mixing import below, mix, mix2

_TCP, _UDP, _SYN, _PSH, _ACK = 6, 17, 2, 8, 16
_CLIENTS, _SERVERS, _SERVER_HOSTS = 10 << 24, 198 << 24 | 18 << 16, 1 << 16
_TCP_OF_TEN, _MTU_DATA, _SMALL_DATA = 8, 1_400, 600
MOST_SNAP, MOST_RECORD = 96, 256
"""A frame is cut at the first; with what is written around it, it is no longer than the second."""
_PORT_SALT, _SERVER_SALT = 0x5EED_11, 0x5EED_12


@step
def is_tcp(seed: Any, flow: Any) -> Any:
    """Four of five flows are TCP."""
    return below(mix2(seed, flow), 10) < _TCP_OF_TEN


@step
def ends(seed: Any, flow: Any) -> tuple[Any, Any, Any, Any]:
    """Client and server of a flow: addresses and ports. The client's address tells flows apart."""
    server = _SERVERS + below(mix2(seed ^ _SERVER_SALT, flow), _SERVER_HOSTS)
    port = 1024 + below(mix2(seed ^ _PORT_SALT, flow), 60_000)
    return _CLIENTS | flow, server, port, 443 if is_tcp(seed, flow) else 53


@step
def _data_bytes(bits: Any) -> Any:
    """Sizes as on the Internet: nothing, something, or all that fits."""
    kind = below(bits, 10)
    if kind < 4:
        return np.int64(0)
    return np.int64(_MTU_DATA) if kind < 7 else np.int64(bits & np.uint64(0xFFFF)) % _SMALL_DATA


@bounded(
    "settings[s.SNAP_BYTES] <= MOST_SNAP and len(out) >= MOST_RECORD",
    "len(sent) >= flows and len(seen) >= flows",
)
@kernel
def fill_headers(
    first: int,
    stop: int,
    flows: int,
    per_second: float,
    settings: Column,
    sent: Column,
    seen: Column,
    out: Column,
) -> tuple[int, int]:
    """Write packets ``first`` to ``stop`` as far as the buffer has room; payloads are zeros, mostly cut off.

    ``sent`` holds the next sequence numbers of both ends of each flow. Returns the next packet and the
    bytes written.
    """
    at, form, snap, seed = 0, settings[s.FORMAT], settings[s.SNAP_BYTES], settings[s.SEED]
    lead = header_bytes(form)
    n = first
    while n < stop and at + MOST_RECORD <= len(out):
        bits = mix2(seed, n + (1 << 40))
        flow = below(bits, flows)
        client, server, port, service = ends(seed, flow)
        tcp, more = is_tcp(seed, flow), mix(bits)
        direction = np.int64(more & np.uint64(1)) if seen[flow, s.UP_PACKETS] else np.int64(0)
        src, dst = (server, client) if direction else (client, server)
        header = TCP_HEADER if tcp else UDP_HEADER
        spoke = seen[flow, s.DOWN_PACKETS if direction else s.UP_PACKETS]
        opens = tcp and spoke == 0
        data = 0 if opens else _data_bytes(more)
        time_us, size, frame = np.int64(n * 1e6 / per_second), header + data, at + lead
        put_ethernet(out, frame, direction, 0x0800)
        ip = frame + ETHERNET
        protocol = _TCP if tcp else _UDP
        put_ipv4(out, ip, IPV4 + size, n & 0xFFFF, 0x4000, protocol, 64 - 7 * direction, src, dst)
        others, l4, flags = address_sum(src) + address_sum(dst) + protocol + size, ip + IPV4, 0
        from_port, to_port = (service, port) if direction else (port, service)
        if tcp:
            flags = (_SYN | _ACK if direction else _SYN) if opens else (_ACK | _PSH if data else _ACK)
            seq, ack = sent[flow, direction], sent[flow, 1 - direction] if flags & _ACK else np.int64(0)
            put_tcp(out, l4, from_port, to_port, seq, ack, 0x5000 | flags, others)
            sent[flow, direction] = seq + data + opens & 0xFFFFFFFF
        else:
            put_udp(out, l4, from_port, to_port, size, others)
        length = ETHERNET + IPV4 + size
        captured = min(length, snap)
        for k in range(l4 + header, frame + captured):
            out[k] = 0
        at = wrap(out, frame, captured, length, settings[s.START_US] + time_us, form)
        see(seen, flow, time_us, length, flags, direction)
        n += 1
    return n, at


@bounded("out.shape == (len(flows), 5)")
@kernel
def describe_flows(seed: int, flows: Column, out: Column) -> None:
    """Addresses, ports and protocol of flows, for the truth."""
    for i in range(len(flows)):
        client, server, port, service = ends(seed, flows[i])
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = client, port, server, service
        out[i, 4] = _TCP if is_tcp(seed, flows[i]) else _UDP
