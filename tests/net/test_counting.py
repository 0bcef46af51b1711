"""Counts are those of the decoder's rows, whatever the captures hold and however they are read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.seeds import CAPTURES, SEEDS
from tests.net import making as m
from tests.net.answers import DATA, MISSING
from tests.net.test_fuzz import edited, edits

from penstock.net._tally import CELLS
from penstock.net.capture import Walk, read_header
from penstock.net.columns import COUNTS
from penstock.net.counting import Counter
from penstock.net.decoding import decode_block
from penstock.net.feeds import BytesFeed
from penstock.net.opening import NotACapture, mapped_walk, opened

KEY = ["ip_version", "protocol", "reason"]
SUMS = ["packets", "bytes", "captured_bytes"]
PLAIN = [
    m.ethernet(m.ipv4(m.tcp(b"abc"), 6)),
    m.ethernet(m.ipv4(m.udp(b"abc"))),
    m.ethernet(m.ipv6(m.tcp(b"abc" * 9), 6), 0x86DD),
    m.ethernet(m.ipv6(m.udp(b"abc")), 0x86DD),
    m.ethernet(m.ipv6(m.udp(m.gtp(m.ipv4(m.udp(b"x"))), dst=2152)), 0x86DD),
]
often = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


def counted(walk: Walk, tunnels: int = 8, stretch: int = 1 << 40) -> tuple[pl.DataFrame, list[object]]:
    counter = Counter(stretch, tunnels)
    faults = [fault for found in counter.count(walk, 1 << 62) for fault in found]
    frames = [pl.DataFrame(schema=dict.fromkeys(COUNTS.names)), *(rows for _, rows in counter.take())]
    return (pl.concat(frames[1:]) if frames[1:] else frames[0]), list(faults)


def decoded(walk: Walk, tunnels: int = 8) -> tuple[pl.DataFrame, list[object]]:
    """The same from rows: the long way."""
    faults, frames = [], []
    for block in walk.blocks():
        faults += list(block.faults)
        rows = decode_block(block, [*KEY, "length", "captured"], tunnels)
        frames.append(rows.with_columns(pl.col("length", "captured").cast(pl.Int64)))
    if not frames:
        return pl.DataFrame(schema=dict.fromkeys([*KEY, *SUMS])), faults
    sums = [
        pl.len().cast(pl.Int64).alias("packets"),
        bytes_of("length", "bytes"),
        bytes_of("captured", "captured_bytes"),
    ]
    return pl.concat(frames).group_by(KEY).agg(sums), faults


def bytes_of(column: str, name: str) -> pl.Expr:
    return pl.col(column).sum().alias(name)


def walk_of(data: bytes) -> Walk:
    header = read_header(data[:24])
    assert header is not None
    return Walk(header, BytesFeed(iter([data[24:]])), base=0, held=data[:24])


def assert_same(data: bytes, tunnels: int = 8) -> None:
    (got, faults), (expected, expected_faults) = (
        counted(walk_of(data), tunnels),
        decoded(walk_of(data), tunnels),
    )
    assert sorted(got.select(*KEY, *SUMS).rows()) == sorted(expected.select(*KEY, *SUMS).rows())
    assert faults == expected_faults
    header = read_header(data[:24])
    if header is not None and header.kind == "pcap":
        mapped, mapped_faults = counted(
            Walk.over(header, np.frombuffer(data, np.uint8), header.begin), tunnels
        )
        assert mapped.equals(got)
        assert mapped_faults == faults


@often
@given(
    st.lists(
        st.tuples(st.sampled_from(PLAIN + SEEDS), edits, st.integers(0, 1 << 12)), min_size=1, max_size=30
    ),
    st.sampled_from([0, 8]),
    st.sampled_from(["<", ">"]),
)
def test_counts_are_the_sums_of_rows_for_mutated_packets(
    made: list[tuple[bytes, list[tuple[int, int]], int]], tunnels: int, order: m.Order
) -> None:
    assert_same(m.pcap([edited(*each) for each in made], order=order), tunnels)


@often
@given(
    st.sampled_from(PLAIN),
    st.integers(12, 80),
    st.integers(0, 255),
    st.integers(30, 100),
    st.integers(0, 200),
)
def test_the_short_way_agrees_with_the_decoder_at_every_header_byte(
    packet: bytes, place: int, value: int, captured: int, wire: int
) -> None:
    changed = bytearray(packet)
    changed[place % len(changed)] = value
    data = bytearray(m.pcap([bytes(changed[:captured])]))
    data[36:40] = wire.to_bytes(4, "little")  # a wire length that has nothing to do with what was captured
    assert_same(bytes(data))


@often
@given(st.sampled_from(CAPTURES), edits, st.integers(0, 1 << 13))
def test_counts_are_the_sums_of_rows_for_mutated_captures(
    seed: bytes, changes: list[tuple[int, int]], end: int
) -> None:
    assert_same(seed[:24] + edited(seed[24:], changes, end))


@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
@pytest.mark.parametrize("folder", ["dpi", "gtp", "decode"])
def test_counts_are_the_sums_of_rows_for_real_captures(folder: str) -> None:
    files = [
        path for path in sorted((DATA / folder).rglob("*")) if path.suffix in (".pcap", ".pcapng", ".cap")
    ]
    packets = 0
    for path in files:
        try:
            with opened(str(path)) as (walk, _):
                expected, expected_faults = decoded(walk)
        except NotACapture:
            continue
        mapped = mapped_walk(str(path), path.stat().st_size, None, is_open=False)
        if mapped is None:
            with opened(str(path)) as (walk, _):
                got, faults = counted(walk)
        else:
            got, faults = counted(mapped)
        assert sorted(got.select(*KEY, *SUMS).rows()) == sorted(expected.select(*KEY, *SUMS).rows()), path
        assert faults == expected_faults, path
        packets += int(got["packets"].sum() or 0)
    assert packets > 1000


def test_times_are_those_of_the_stretch() -> None:
    data = m.pcap([PLAIN[i % 4] for i in range(100)])
    rows, _ = counted(walk_of(data), stretch=1000)
    assert rows.select("time", "last_time").unique().height == -(-len(data) // 1000)
    assert rows["time"].min() == rows["time"][0]
    assert (rows["last_time"] >= rows["time"]).all()


def test_packets_without_a_time_do_not_hide_the_times_of_others() -> None:
    data = m.section() + m.interface() + m.simple(PLAIN[0]) + m.enhanced(PLAIN[0], 5_000_000)
    rows, _ = counted(walk_of(data))
    assert rows["time"].dt.epoch("s").to_list() == [5]
    without, _ = counted(walk_of(m.section() + m.interface() + m.simple(PLAIN[0])))
    assert without["time"].null_count() == 1


def test_more_kinds_than_there_is_room_for_are_taken_out_between_stretches() -> None:
    packets = [m.ethernet(m.ipv4(b"", protocol)) for protocol in range(256)] * 250
    rows, _ = counted(walk_of(m.pcap(packets)), stretch=256 * 50)
    assert rows.height > CELLS
    assert int(rows["packets"].sum()) == len(packets)


def test_a_mapped_file_is_read_to_the_size_that_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    data = m.pcap(PLAIN * 10)
    path.write_bytes(data + os.urandom(50))
    walk = mapped_walk(str(path), len(data), None, is_open=False)
    assert walk is not None
    rows, faults = counted(walk)
    assert (int(rows["packets"].sum()), faults) == (50, [])
