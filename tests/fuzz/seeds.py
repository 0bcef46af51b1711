"""Captures to begin with: one of each kind that the decoders know, all made here."""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path

from penstock.net.synth import Traffic, write
from penstock.net.synth.quic import client_initial
from tests.fuzz.heavy import tcp_holes
from tests.net import gprs_making as g
from tests.net import hellos as h
from tests.net import making as m
from tests.net.test_decode import TUNNELLED

SEEDS = [m.ethernet(packet) for _, _, packet in TUNNELLED] + [
    m.ethernet(
        m.ipv4(m.tcp(b"abc", options=bytes(12)), 6, options=bytes(8)), tags=[(0x88A8, 5), (0x8100, 6)]
    ),
    m.ethernet(m.ipv6(bytes([43, 2]) + bytes(22) + bytes([51, 0, 3]) + bytes(21) + m.udp(b"x"), 0), 0x86DD),
    m.ethernet(b"\0\x01\x20\xff\0\x02\x01\xff" + m.ipv4(m.udp(b"y")), 0x8847),
]
LINKS = (0, 1, 9, 12, 50, 51, 101, 104, 108, 113, 147, 192, 228, 229, 276)
CAPTURES = [
    m.pcap(SEEDS),
    m.pcap(SEEDS, order=">", is_nano=True),
    m.section() + m.interface()
    + b"".join(m.enhanced(packet, 10**15) + m.simple(packet) for packet in SEEDS)
    + m.section(">") + m.interface(order=">", resolution=9)
    + b"".join(m.obsolete(packet, 10**18, 0, ">") for packet in SEEDS),
]  # fmt: skip


def seeds() -> list[bytes]:
    """The captures. Small ones: a mutation of a small input changes more of what is decoded."""
    said = [h.client_hello("www.facebook.com"), h.HTTP, h.dns_query("www.netflix.com"), h.SIP, h.rtp(3)]
    talk = [m.ethernet(m.ipv4(m.tcp(part), 6)) for part in said]
    talk += [m.ethernet(m.ipv4(m.udp(part, dst=port))) for part in said for port in (53, 443, 5060)]
    rng = random.Random(5)
    quic = m.ethernet(m.ipv4(m.udp(client_initial("www.google.com", b"12345678", b"abcdefgh", rng), dst=443)))
    return [
        *CAPTURES,
        *(m.pcap([packet], link=link) for link in LINKS for packet in (SEEDS[0][14:], SEEDS[-1])),
        *(m.pcap([packet]) for packet in SEEDS),
        *(m.pcap(talk[i : i + 4]) for i in range(0, len(talk), 4)),
        m.pcap([quic]),
        m.pcap(_fragments()),
        m.pcap(_stream()),
        m.pcap(tcp_holes(20), step_s=0),
        m.pcap(_control()),
        m.pcap(_gb()),
        *_generated(),
    ]


def _fragments() -> list[bytes]:
    whole = m.udp(bytes(range(200)) * 2)
    cuts = [(0, 160, 0x2000), (160, 320, 0x2000 | 20), (320, len(whole), 40)]
    four = [m.ethernet(m.ipv4(whole[a:b], fragment=word)) for a, b, word in cuts]
    six = [
        m.ethernet(
            m.ipv6(struct.pack(">BBHI", 17, 0, (a & ~7) | (b < len(whole)), 9) + whole[a:b], 44), 0x86DD
        )
        for a, b, _ in cuts
    ]
    return four + six[::-1]


def _stream() -> list[bytes]:
    def segment(seq: int, payload: bytes, flags: int) -> bytes:
        head = struct.pack(">HHIIBBHHH", 1111, 80, seq, 200, 0x50, flags, 512, 0, 0)
        return m.ethernet(m.ipv4(head + payload, 6))

    parts = [segment(100, b"", 2), segment(111, b"later" * 4, 0x18), segment(101, b"0123456789", 0x18)]
    return [*parts, segment(105, b"overlap" * 3, 0x18), segment(131, b"", 0x11), segment(131, b"", 4)]


def _control() -> list[bytes]:
    request = g.tlv_2(1, g.bcd("001010123456789", 8)) + g.f_teid(10, 1, "10.0.0.1")
    request += g.bearer(5, g.f_teid(4, 3, "10.0.0.1", 2)) + g.location_2(7, 9)
    answer = g.ACCEPTED_2 + g.f_teid(11, 2, "10.0.0.2") + g.bearer(5, g.f_teid(5, 4, "10.0.0.2", 2))
    one = (
        b"\x02"
        + g.bcd("001010123456789", 8)
        + b"\x10"
        + struct.pack(">I", 7)
        + b"\x11"
        + struct.pack(">I", 8)
    )
    one += g.tlv_1(133, g.ip("10.0.0.1")) + g.tlv_1(133, g.ip("10.0.0.1"))
    return [
        g.sent(g.v2(32, 0, 5, request), "10.0.0.1", "10.0.0.2"),
        g.sent(g.v2(33, 1, 5, answer), "10.0.0.2", "10.0.0.1"),
        g.sent(g.v1(16, 0, 6, one), "10.0.0.1", "10.0.0.2"),
        g.sent(g.v1(17, 7, 6, b"\x01\x80" + one[9:]), "10.0.0.2", "10.0.0.1"),
        m.ethernet(m.ipv4(m.udp(m.gtp(m.ipv4(m.udp(b"user")), teid=4), dst=2152), dst="10.0.0.2")),
    ]


def _gb() -> list[bytes]:
    inner = m.ipv4(m.udp(h.dns_query("a.example.org"), dst=53))
    units = [
        g.sndcp(inner),
        g.sndcp(inner, coding=1),
        g.sndcp(inner[:20], flags=0x75),
        b"\x01\xc0\x01\x08\x01abc",
    ]
    return [g.gb_sent(g.gb_unit(unit)) for unit in units]


def _generated() -> list[bytes]:
    """Some of the generator's traffic, cut to short pieces."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        for tunnel in ("none", "gtp"):
            path = Path(folder) / f"{tunnel}.pcap"
            write(path, Traffic(rate=300, duration="1s", subscribers=10, cells=3, tunnel=tunnel, seed=1))
            data = path.read_bytes()
            made += [data[:24] + _records(data, first, 6) for first in range(0, 90, 6)]
    return made


def _records(data: bytes, first: int, count: int) -> bytes:
    """Some records of a capture."""
    at, out = 24, b""
    for number in range(first + count):
        if at + 16 > len(data):
            break
        (captured,) = struct.unpack_from("<I", data, at + 8)
        if number >= first:
            out += data[at : at + 16 + captured]
        at += 16 + captured
    return out
