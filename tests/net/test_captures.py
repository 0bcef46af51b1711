"""pcap and pcapng, in every form that is written, and what becomes of damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from tests.net import making as m

from penstock.net._index_state import (
    BLOCK_KINDS,
    MOST_FAULTS,
    MOST_INTERFACES,
    NO_INTERFACE,
    NO_TIME,
    REASONS,
)
from penstock.net.capture import Fault, Walk, read_header
from penstock.net.feeds import BytesFeed

PACKETS = [bytes([i]) * (20 + i) for i in range(40)]


class Found:
    """What a walk has found, taken out of its buffers."""

    def __init__(self, data: bytes, chunk: int = 1 << 20) -> None:
        header = read_header(data[:24])
        assert header is not None
        self.walk = Walk(header, BytesFeed(_chunks(data[24:], chunk)), base=0, held=data[:24])
        self.packets: list[bytes] = []
        self.times: list[int] = []
        self.kinds: list[tuple[int, int]] = []
        self.wire: list[int] = []
        self.faults: list[Fault] = []
        for block in self.walk.blocks():
            self.faults += block.faults
            for at, captured in zip(block.places[1].tolist(), block.lengths[0].tolist(), strict=True):
                self.packets.append(block.data[at : at + captured].tobytes())
            self.times += block.places[2].tolist()
            self.wire += block.lengths[1].tolist()
            self.kinds += list(zip(*block.kinds.tolist(), strict=True))

    @property
    def blocks(self) -> dict[str, int]:
        counts = zip(BLOCK_KINDS, self.walk.blocks_of_kind.tolist(), strict=True)
        return {kind: count for kind, count in counts if count}


def _chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("is_nano", [False, True])
@pytest.mark.parametrize("chunk", [1, 17, 1 << 20])
def test_pcap_is_read_in_both_orders_and_units(order: m.Order, is_nano: bool, chunk: int) -> None:
    found = Found(m.pcap(PACKETS, order=order, is_nano=is_nano, link=101), chunk)
    assert found.packets == PACKETS
    assert found.times[3] == 1_700_000_003 * 10**9 + 3 * (1 if is_nano else 1000)
    assert (found.kinds[0], found.faults) == ((0, 101), [])


def test_lengths_of_an_old_pcap_are_the_other_way_round() -> None:
    data = bytearray(m.pcap(PACKETS[:1], snap=10))
    data[6:8] = b"\x02\x00"
    data[32:40] = data[36:40] + data[32:36]
    found = Found(bytes(data))
    assert (found.packets, found.wire) == ([PACKETS[0][:10]], [20])


@pytest.mark.parametrize(
    ("resolution", "offset_s", "ticks", "ns"),
    [
        (None, None, 5_000_001, 5_000_001_000),
        (9, None, 5_000_000_001, 5_000_000_001),
        (3, 10, 5_001, 15_001_000_000),
        (0, -3, 5, 2_000_000_000),
        (12, None, 5_000_000_000_999, 5_000_000_000),
        (0x80 | 10, None, 5 << 10 | 512, 5_500_000_000),
        (0x80 | 40, None, 5 << 40 | 1 << 39, 5_500_000_000),
        (0x80 | 127, None, 5, NO_TIME),
        (9, None, 2**64 - 1, 2**63 - 1),
    ],
)
def test_ticks_become_nanoseconds(resolution: int | None, offset_s: int | None, ticks: int, ns: int) -> None:
    for order in ("<", ">"):
        head = m.section(order) + m.interface(order=order, resolution=resolution, offset_s=offset_s)
        found = Found(
            head + m.enhanced(b"x" * 20, ticks, order=order) + m.obsolete(b"y" * 9, ticks, order=order)
        )
        expected = ns if ns in (NO_TIME, 2**63 - 1) else pytest.approx(ns, abs=1)
        assert found.times == [expected, expected]
        assert found.packets == [b"x" * 20, b"y" * 9]


def test_a_simple_packet_has_no_time_and_is_cut_by_its_interface() -> None:
    body = struct.pack("<I", 100) + b"z" * 12
    found = Found(m.section() + m.interface(snap=12) + m.block(3, body))
    assert (found.packets, found.wire, found.times) == ([b"z" * 12], [100], [NO_TIME])


def test_each_section_has_its_own_interfaces_and_order() -> None:
    one = m.section() + m.interface(1) + m.interface(101) + m.enhanced(b"a" * 8, 1, 1)
    two = m.section(">") + m.interface(113, order=">") + m.enhanced(b"b" * 8, 1, 0, ">")
    found = Found(one + two)
    assert found.kinds == [(1, 101), (0, 113)]
    assert found.blocks == {"SHB": 2, "IDB": 3, "EPB": 2}


def test_a_section_may_have_more_interfaces_than_expected() -> None:
    found = Found(m.section() + b"".join(m.interface(i) for i in range(300)) + m.enhanced(b"abcd", 1, 299))
    assert found.kinds == [(299, 299)]


@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_a_damaged_length_costs_one_record(chunk: int) -> None:
    data = bytearray(m.pcap(PACKETS))
    place = 24 + sum(16 + len(packet) for packet in PACKETS[:10])
    data[place + 8 : place + 12] = b"\xff\xff\xff\x7f"
    found = Found(bytes(data), chunk)
    assert found.packets == PACKETS[:10] + PACKETS[11:]
    assert [(fault.begin, fault.end) for fault in found.faults] == [(place, place + 16 + len(PACKETS[10]))]


def test_a_hole_in_a_pcap_is_passed_over() -> None:
    data = m.pcap([bytes([i % 251]) * 300 for i in range(30_000)])
    hole = np.random.default_rng(1).integers(0, 256, 3_000_000, dtype=np.uint8).tobytes()
    found = Found(data[:100_000] + hole + data[3_100_000:])
    assert 30_000 - 10_000 < len(found.packets) < 30_000
    assert sum(fault.end - fault.begin for fault in found.faults) > 2_000_000


def test_a_damaged_block_costs_one_block() -> None:
    parts = [m.section(), m.interface(), *(m.enhanced(packet, 10**15) for packet in PACKETS)]
    parts[12] = parts[12][:4] + b"\x01\x02\x03\x7f" + parts[12][8:]
    found = Found(b"".join(parts))
    assert found.packets == PACKETS[:10] + PACKETS[11:]
    assert len(found.faults) == 1


UNREADABLE_SECTION = m.block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 2, 0, -1))
NO_LINK_TYPE = struct.pack("<III", 1, 12, 12)
STRAY = m.enhanced(b"stray", 1, number=9)


@pytest.mark.parametrize(
    "damage",
    [UNREADABLE_SECTION, NO_LINK_TYPE, STRAY, UNREADABLE_SECTION + STRAY],
    ids=["section", "interface", "packet", "section and packet"],
)
@pytest.mark.parametrize("count", [MOST_FAULTS - 2, 3 * MOST_FAULTS])
def test_any_number_of_damaged_blocks_is_reported(damage: bytes, count: int) -> None:
    whole = m.section() + m.interface() + m.enhanced(b"first", 1)
    found = Found(whole + damage * count)
    assert found.packets == [b"first"]
    assert len(found.faults) == count * (2 if damage == UNREADABLE_SECTION + STRAY else 1)
    covered = sum(fault.end - fault.begin for fault in found.faults)
    assert covered == len(damage) * count


def test_interfaces_without_end_take_no_memory_without_end() -> None:
    """A few kilobytes of a compressed capture may hold any number of them."""
    most = MOST_INTERFACES
    packets = m.enhanced(b"a" * 8, 1, 0) + m.enhanced(b"b" * 8, 1, most - 1) + m.enhanced(b"c" * 8, 1, most)
    found = Found(m.section() + m.interface() * (most + 5000) + packets)
    assert found.packets == [b"a" * 8, b"b" * 8]
    assert [fault.reason for fault in found.faults] == [REASONS[NO_INTERFACE]]
    assert len(found.walk.interfaces) == most


def test_a_packet_of_an_unknown_interface_costs_only_itself() -> None:
    found = Found(m.section() + m.interface() + m.enhanced(b"a" * 8, 1, 5) + m.enhanced(b"b" * 8, 1, 0))
    assert found.packets == [b"b" * 8]
    assert ["interface" in fault.reason for fault in found.faults] == [True]


def test_a_file_that_ends_early_gives_what_is_whole() -> None:
    data = m.pcap(PACKETS)
    for end in range(24, len(data), 7):
        found = Found(data[:end])
        assert found.packets == PACKETS[: len(found.packets)]
        assert len(found.faults) == (0 if data[:end] == m.pcap(found.packets) else 1)


def test_what_is_no_capture_is_none() -> None:
    assert read_header(b"") is None
    assert read_header(b"GIF89a and so on, and so on") is None
    assert read_header(m.pcap([])[:23]) is None
