"""Mutated packets and captures: always an answer, always the same one."""

from __future__ import annotations

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.net import making as m
from tests.net.test_captures import Found
from tests.net.test_decode import TUNNELLED, decoded

from penstock.net._layout import REASONS
from penstock.net.capture import Walk, read_header
from penstock.net.columns import COUNTS
from penstock.net.decoding import Counter, decode_block
from penstock.net.feeds import BytesFeed

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
    m.section() + m.interface() + b"".join(m.enhanced(packet, 10**15) + m.simple(packet) for packet in SEEDS)
    + m.section(">") + m.interface(order=">", resolution=9)
    + b"".join(m.obsolete(packet, 10**18, 0, ">") for packet in SEEDS),
]  # fmt: skip
edits = st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), max_size=12)
often = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


def edited(data: bytes, changes: list[tuple[int, int]], end: int) -> bytes:
    out = bytearray(data)
    for place, value in changes:
        out[place % len(out)] = value
    return bytes(out[: max(1, end % (len(out) + 1))])


@often
@given(st.sampled_from(SEEDS), edits, st.integers(0, 1 << 12), st.sampled_from(LINKS))
def test_every_packet_becomes_a_row_whatever_it_holds(
    seed: bytes, changes: list[tuple[int, int]], end: int, link: int
) -> None:
    packet = edited(seed, changes, end)
    rows = decoded([packet], link)
    assert rows.equals(decoded([packet], link))
    (row,) = rows.iter_rows(named=True)
    assert row["reason"] < len(REASONS)
    assert row["payload_offset"] <= row["length"]
    assert row["tunnel_depth"] <= 8


@often
@given(st.binary(max_size=120), st.sampled_from(LINKS))
def test_bytes_at_random_become_a_row(packet: bytes, link: int) -> None:
    assert decoded([packet], link).height == 1


@often
@given(st.sampled_from(CAPTURES), edits, st.integers(0, 1 << 13), st.integers(1, 4000))
def test_a_mutated_capture_gives_the_same_however_it_is_fed(
    seed: bytes, changes: list[tuple[int, int]], end: int, chunk: int
) -> None:
    data = seed[:24] + edited(seed[24:], changes, end)
    whole, parts = Found(data), Found(data, chunk)
    assert (whole.packets, whole.times, whole.faults) == (parts.packets, parts.times, parts.faults)
    covered = sum(map(len, whole.packets)) + sum(fault.end - fault.begin for fault in whole.faults)
    assert covered <= len(data)


@often
@given(st.lists(st.tuples(st.sampled_from(SEEDS), edits, st.integers(0, 1 << 12)), min_size=1, max_size=20))
def test_counts_are_the_sums_of_the_rows(made: list[tuple[bytes, list[tuple[int, int]], int]]) -> None:
    packets = [edited(*each) for each in made]
    rows = decoded(packets).group_by("ip_version", "protocol", "reason").len("packets")
    counted = counts_of(m.pcap(packets))
    key = ["ip_version", "protocol", "reason"]
    assert sorted(counted.select(*key, "packets").rows()) == sorted(rows.select(*key, "packets").rows())


def counts_of(data: bytes) -> pl.DataFrame:
    header = read_header(data[:24])
    assert header is not None
    counter = Counter(1 << 40, 8)
    parts = []
    for block in Walk(header, BytesFeed(iter([data[24:]])), base=24).blocks():
        parts += [rows for _, rows in counter.add(block)]
        assert decode_block(block, ["reason"]).height == len(block)
    parts += [rows for _, rows in counter.finish()]
    assert all(tuple(rows.columns) == COUNTS.names for rows in parts)
    return pl.concat(parts)
