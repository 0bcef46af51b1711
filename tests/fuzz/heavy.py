"""Captures that fill the state of operators, and end with a packet or two that resolve all of it.

Mutations of small captures never make such an input: an array whose size was derived from the rows of a
batch alone, and not from what waits in the state, was too small for it.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.fuzz.mutation import edit
from tests.net import gprs_making as g
from tests.net import making as m

MOST_BYTES = 1 << 18
TAIL = 2
"""So many packets at the end of each capture resolve what the others left."""
_KEPT_HEAD = 24
_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16


class Heavy:
    """Makes such captures by number; every fourth one is mutated besides."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def made(self, number: int) -> bytes:
        """The input of this number."""
        rng = random.Random(self._seed << 40 | number)
        data = bytearray(capture(rng))
        if rng.random() < 0.25:
            edit(data, _KEPT_HEAD, rng.choice((1, 2, 5)), rng)
        return bytes(data)


def capture(rng: random.Random) -> bytes:
    """Return a capture whose last packets meet much state; times are a microsecond apart."""
    made = rng.choice(_KINDS)(rng)
    return made if isinstance(made, bytes) else m.pcap(made, step_s=0)[:MOST_BYTES]


def tcp_holes(count: int, *, first: int = 1000) -> list[bytes]:
    """Return a SYN, ``count`` segments of one byte with holes between them, and one that covers them all."""
    waiting = [_segment(first + 1 + 2 * i, b"x") for i in range(count)]
    return [_segment(first - 1, b"", _SYN), *waiting, _segment(first, b"y" * (2 * count + 1))]


def _segment(seq: int, payload: bytes, flags: int = _ACK, *, port: int = 1111) -> bytes:
    head = struct.pack(">HHIIBBHHH", port, 80, seq % 2**32, 200, 0x50, flags, 512, 0, 0)
    return m.ethernet(m.ipv4(head + payload, 6))


def _streams(rng: random.Random) -> list[bytes]:
    """Holes in one or many connections, in any order; then segments that cover some or end connections."""
    first, ports = rng.choice((1000, 2**32 - 60)), rng.choice((1, 1, 3, 20))
    made = [_segment(first - 1, b"", _SYN, port=2000 + port) for port in range(ports)]
    places = [(i, rng.randrange(ports)) for i in range(rng.choice((20, 60, 200)))]
    if rng.random() < 0.5:
        rng.shuffle(places)
    made += [_segment(first + 1 + 3 * i, b"ab"[: 1 + i % 2], port=2000 + port) for i, port in places]
    for _ in range(TAIL):
        begin, size = rng.choice((0, 0, rng.randrange(100))), rng.choice((40, 200, 700, 1400))
        flags = rng.choice((_ACK, _ACK, _ACK, _FIN, _SYN, _RST))
        made.append(_segment(first + begin, bytes(size), flags, port=2000 + rng.randrange(ports)))
    return made


def _fragments(rng: random.Random) -> list[bytes]:
    """Fragments of one or many datagrams; the last packets complete some of them, or contradict them."""
    count, six, many = rng.choice((4, 20, 150)), rng.random() < 0.4, rng.random() < 0.4
    order = list(range(1, count))
    rng.shuffle(order)
    places = [(0 if many else i, i if many else 7) for i in order]
    if many:
        places = [(1, i) for i in order]
    made = [_fragment(place, name, rng.random() < 0.02, six) for place, name in places]
    for _ in range(TAIL):
        place = rng.choice((0, 0, count, rng.randrange(count + 1)))
        made.append(_fragment(place, rng.choice(places)[1], place == count or rng.random() < 0.3, six))
    return made


def _fragment(place: int, name: int, is_last: bool, six: bool) -> bytes:
    data = m.udp(bytes(8))[:16] if place == 0 else bytes(16)
    begin, more = 16 * place, not is_last
    if six:
        head = struct.pack(">BBHI", 17, 0, begin | more, name)
        return m.ethernet(m.ipv6(head + data, 44), 0x86DD)
    packet = bytearray(m.ipv4(data, fragment=begin // 8 | more << 13))
    packet[4:6] = struct.pack(">H", name)
    return m.ethernet(bytes(packet))


def _gb_parts(rng: random.Random) -> list[bytes]:
    """Segments of packets of the Gb interface, the first one of each last or first."""
    inner = m.ipv4(m.udp(bytes(40)))
    count = rng.choice((3, 15))
    first = [g.sndcp(inner[:20], flags=0x75)] * count
    later = [bytes([1, 0x15, n << 4 & 255, n & 255]) + inner[20:40] for n in range(count)]
    units = [*first, *later] if rng.random() < 0.5 else [*later, *first]
    return [g.gb_sent(g.gb_unit(unit)) for unit in units]


def _flows(rng: random.Random) -> list[bytes]:
    """Many conversations, each with packets that an engine waits for more of."""
    made = []
    for _ in range(rng.choice((30, 200))):
        port, size = rng.randrange(1, 40), rng.choice((0, 1, 700, 1400))
        made.append(m.ethernet(m.ipv4(m.udp(bytes(size), src=4000 + port, dst=443))))
    return made


def _damage(rng: random.Random) -> bytes:
    """A pcapng of very many stretches that cannot be read."""
    odd = m.block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, rng.choice((0, 2)), 0, -1))
    short = struct.pack("<III", 1, 12, 12)  # an interface without a link type
    stray = m.enhanced(b"stray", 1, number=9)
    return m.section() + m.interface() + rng.choice((odd, short, stray, odd + stray)) * rng.choice((40, 6000))


_KINDS: tuple[Callable[[random.Random], list[bytes] | bytes], ...] = (
    _streams, _streams, _fragments, _fragments, _gb_parts, _flows, _damage,
)  # fmt: skip
