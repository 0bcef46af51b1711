"""Mutated packets and captures: always an answer, always the same one."""

from __future__ import annotations

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.seeds import CAPTURES, LINKS, SEEDS
from tests.net import making as m
from tests.net.test_captures import Found
from tests.net.test_decode import decoded

from penstock.net._layout import REASONS
from penstock.net.capture import Walk, read_header
from penstock.net.columns import COUNTS
from penstock.net.counting import Counter
from penstock.net.decoding import decode_block
from penstock.net.feeds import BytesFeed

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
    for block in Walk(header, BytesFeed(iter([data[24:]])), base=24).blocks():
        counter.add(block)
        assert decode_block(block, ["reason"]).height == len(block)
    parts = [rows for _, rows in counter.take()]
    assert all(tuple(rows.columns) == COUNTS.names for rows in parts)
    return pl.concat(parts)
