"""Generated traffic: the same bytes for the same seed, and the truth is what others find in them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.net import wire
from tests.net.answers import read
from typer.testing import CliRunner

import penstock as ps
from penstock import net
from penstock.cli.commands import app
from penstock.connect.source import END_OF_TIME, Limit
from penstock.errors import BadArgument
from penstock.net import synth
from penstock.net.columns import IN_FILE, TYPES
from penstock.net.synth.planning import SynthPlanner
from penstock.testing import run
from penstock.testing.sources import check_source, read_range

PLAIN = synth.Traffic(rate=4_000, duration="2s", subscribers=40, cells=7, seed=5)
GTP = dataclasses.replace(PLAIN, tunnel="gtp", stay="1s")
ROUGH = {"loss": 0.03, "disorder": 0.05, "retransmission": 0.04}
BOTH = pytest.mark.parametrize("traffic", [PLAIN, GTP], ids=["plain", "gtp"])
FLOW = [name for name in net.Flows.returns if name not in ("vlan", "tunnel_id")]


def found_flows(path: Path) -> pl.DataFrame:
    top = ps.Topology("flows")
    packets = top.source("packets", net.Pcap(path, ends="drained"))
    keyed = packets.map("key", net.flow_key).key_by(*net.FLOW_KEY)
    keyed.process("flows", net.Flows()).sink("out", ps.Collect())
    flows = run(top)["out"].select(FLOW)
    return flows.filter(pl.col("dst_port") != wire.GTP_C).sort(FLOW)


@BOTH
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(
    traffic: synth.Traffic, tmp_path: Path
) -> None:
    for name, made in (("a", traffic), ("b", traffic), ("c", dataclasses.replace(traffic, seed=6))):
        synth.write(tmp_path / name, made)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "c"]


@BOTH
def test_every_length_and_checksum_holds_and_times_ascend(traffic: synth.Traffic, tmp_path: Path) -> None:
    truth = synth.write(tmp_path / "a.pcap", traffic)
    packets = list(wire.packets(tmp_path / "a.pcap"))  # asserts them
    assert len(packets) == truth.packets
    assert sum(p.frame_bytes for p in packets) == truth.bytes
    times = [p.time_us for p in packets]
    assert times == sorted(times)
    assert {len(p.src) for p in packets} == {4, 16}
    assert any(p.tunnel for p in packets) == (traffic.tunnel == "gtp")


@pytest.mark.parametrize("snap", [64, 262_144])
def test_pcapng_holds_the_same_packets_as_pcap(snap: int, tmp_path: Path) -> None:
    truths = [synth.write(tmp_path / name, GTP, snap_bytes=snap) for name in ("a.pcap", "a.pcapng")]
    one, other = (read(tmp_path / name) for name in ("a.pcap", "a.pcapng"))
    assert one.equals(other)
    assert one["captured"].max() <= snap
    assert one.height == truths[0].packets
    assert truths[0].flows.equals(truths[1].flows)


@pytest.mark.parametrize("rough", [{}, ROUGH], ids=["smooth", "rough"])
@BOTH
def test_decoded_flows_are_exactly_the_truth(
    traffic: synth.Traffic, rough: dict[str, float], tmp_path: Path
) -> None:
    truth = synth.write(tmp_path / "a.pcap", dataclasses.replace(traffic, **rough))  # type: ignore[arg-type]
    assert found_flows(tmp_path / "a.pcap").equals(truth.flows.select(FLOW).sort(FLOW))
    packets = read(tmp_path / "a.pcap")
    assert (packets["reason"] == 0).all()
    assert (packets.height, packets["length"].sum()) == (truth.packets, truth.bytes)
    assert truth.applications["packets"].sum() == truth.packets
    users = truth.applications.filter(pl.col("application") != "gtp-c")
    for frame in (truth.subscribers, truth.cells):
        assert frame["packets"].sum() == users["packets"].sum()
        assert frame["bytes"].sum() == users["bytes"].sum()


@BOTH
def test_tcp_streams_have_no_gap_and_each_side_acknowledges_what_was_sent(
    traffic: synth.Traffic, tmp_path: Path
) -> None:
    synth.write(tmp_path / "a.pcap", traffic)
    expected: dict[tuple[bytes, int, bytes, int], int] = {}
    ended = Counter[str]()
    for p in wire.packets(tmp_path / "a.pcap"):
        if p.protocol != 6:
            continue
        seq, ack = int.from_bytes(p.body[4:8], "big"), int.from_bytes(p.body[8:12], "big")
        flags = p.body[13]
        if p.way in expected:
            assert seq == expected[p.way]
        else:
            assert flags & 2
        back = (*p.way[2:], *p.way[:2])
        assert ack == (expected[back] if flags & 16 else 0)
        expected[p.way] = (seq + len(p.payload) + bool(flags & 3)) % 2**32
        ended["fin" if flags & 1 else "other"] += 1
    assert ended["fin"] == len(expected) > 100


def test_loss_and_retransmission_come_at_the_given_rates(tmp_path: Path) -> None:
    whole = synth.write(tmp_path / "whole.pcap", PLAIN)
    lossy = synth.write(tmp_path / "lossy.pcap", dataclasses.replace(PLAIN, loss=0.1))
    assert 1 - lossy.packets / whole.packets == pytest.approx(0.1, abs=0.015)
    synth.write(tmp_path / "twice.pcap", dataclasses.replace(PLAIN, retransmission=0.1))
    segments = Counter(
        (p.way, p.body[4:8], p.payload)
        for p in wire.packets(tmp_path / "twice.pcap")
        if p.protocol == 6 and p.payload
    )
    again = sum(count - 1 for count in segments.values())
    assert again / len(segments) == pytest.approx(0.1, abs=0.02)


def test_disorder_puts_packets_behind_later_ones(tmp_path: Path) -> None:
    def behind(path: Path) -> int:
        greatest: dict[tuple[bytes, int, bytes, int], int] = {}
        count = 0
        for p in wire.packets(path):
            seq = int.from_bytes(p.body[4:8], "big")
            if p.protocol == 6 and p.payload:
                count += seq < greatest.get(p.way, 0) < seq + 2**20
                greatest[p.way] = max(seq, greatest.get(p.way, 0))
        return count

    synth.write(tmp_path / "a.pcap", PLAIN)
    synth.write(tmp_path / "b.pcap", dataclasses.replace(PLAIN, disorder=0.2))
    assert behind(tmp_path / "a.pcap") == 0
    assert behind(tmp_path / "b.pcap") > 20


@BOTH
def test_fragments_join_to_the_packets_that_they_were(traffic: synth.Traffic, tmp_path: Path) -> None:
    synth.write(tmp_path / "whole.pcap", traffic)
    truth = synth.write(tmp_path / "cut.pcap", dataclasses.replace(traffic, fragments=0.2))
    waiting: dict[tuple[bytes, bytes, int], wire.Packet] = {}
    found = Counter[tuple[bytes, bytes, bytes]]()
    frames = 0
    for p in wire.packets(tmp_path / "cut.pcap"):
        frames += 1
        key = (p.src, p.dst, p.identity)
        if p.fragment == 0x2000:
            waiting[key] = p
            continue
        whole = wire.joined(waiting.pop(key), p) if p.fragment else p
        found[whole.src, whole.dst, whole.body] += 1
    assert not waiting
    assert found == Counter((p.src, p.dst, p.body) for p in wire.packets(tmp_path / "whole.pcap"))
    assert frames == truth.packets > found.total() + 100


def test_the_control_plane_tells_whose_packets_they_are_and_where(tmp_path: Path) -> None:
    truth = synth.write(tmp_path / "a.pcap", GTP)
    owner: dict[int, str] = {}
    place: dict[str, tuple[int, int]] = {}
    by_cell, by_imsi = Counter[tuple[int, int]](), Counter[str]()
    moves = deleted = 0
    known: dict[tuple[bytes, int], str] = {}
    for p in wire.packets(tmp_path / "a.pcap"):
        if p.tunnel:
            imsi = owner[p.tunnel]
            by_imsi[imsi] += 1
            by_cell[place[imsi]] += 1
            continue
        m = p.payload
        if m[0] >> 5 == 1:
            kind, teid, values = m[1], m[4:8], dict(wire.elements_1(m[12:]))
            imsi = wire.tbcd(values[2]) if 2 in values else ""
            data = values.get(16)
            at = values.get(152)
            spot = (int.from_bytes(at[4:6], "big"), int.from_bytes(at[6:8], "big")) if at else None
            own = values.get(17)
        else:
            kind, teid = m[1], m[4:8]
            parts = {(k, i): v for k, i, v in wire.elements_2(m[12:])}
            imsi = wire.tbcd(parts[1, 0]) if (1, 0) in parts else ""
            bearer = {(k, i): v for k, i, v in wire.elements_2(parts.get((93, 0), b""))}
            tunnel = next((v for (k, _), v in bearer.items() if k == 87), None)
            data = tunnel[1:5] if tunnel else None
            at = parts.get((86, 0))
            spot = (int.from_bytes(at[4:6], "big"), int.from_bytes(at[9:13], "big")) if at else None
            control = next((v for (k, _), v in parts.items() if k == 87), None)
            own = control[1:5] if control else None
        if not imsi:
            imsi = known[p.dst, int.from_bytes(teid, "big")]
        if own:
            known[p.src, int.from_bytes(own, "big")] = imsi
        if data:
            owner[int.from_bytes(data, "big")] = imsi
        moves += kind in (18, 34)
        deleted += kind in (20, 36)
        if spot and kind not in (20, 36):
            place[imsi] = spot
    assert dict(by_imsi) == dict(truth.subscribers.select("imsi", "packets").iter_rows())
    cells = {(area, cell): packets for area, cell, packets, _ in truth.cells.iter_rows()}
    assert dict(by_cell) == cells
    assert deleted == GTP.subscribers
    assert moves > 0
    assert set(truth.sessions["gtp_version"]) == {1, 2}


def test_shares_mean_size_and_concurrency_are_what_was_asked_for(tmp_path: Path) -> None:
    mix = synth.Mix(dns=10, http=30, tls=30, quic=10, sip=10, mail=5, messenger=5)
    traffic = dataclasses.replace(PLAIN, mix=mix, rate=30_000, duration="4s", mean_bytes=500, ipv6=0)
    truth = synth.write(tmp_path / "a.pcap", traffic)
    assert truth.packets == pytest.approx(120_000, rel=0.05)
    assert truth.bytes / truth.packets == pytest.approx(500, rel=0.05)
    for name, packets in truth.applications.select("application", "packets").iter_rows():
        assert packets / truth.packets == pytest.approx(mix.shares()[name] / 100, rel=0.3)


def test_as_many_flows_go_on_at_once_as_were_asked_for(tmp_path: Path) -> None:
    traffic = dataclasses.replace(PLAIN, rate=20_000, duration="5s", concurrent_flows=2_000)
    flows = synth.write(tmp_path / "a.pcap", traffic).flows
    for seconds in (3, 4):
        now = traffic.start.replace(tzinfo=None) + timedelta(seconds=seconds)
        alive = flows.filter((pl.col("first_time") <= now) & (pl.col("last_time") >= now)).height
        assert alive == pytest.approx(2_000, rel=0.15)


@BOTH
def test_the_source_conforms_and_gives_the_rows_of_the_capture(
    traffic: synth.Traffic, tmp_path: Path
) -> None:
    small = dataclasses.replace(traffic, rate=150, duration="3s", subscribers=5)
    columns = tuple(name for name in TYPES if name not in IN_FILE)
    rows = check_source(lambda: synth.Source(small, columns=columns), tmp_path / "scratch")
    synth.write(tmp_path / "a.pcap", small)
    pcap = net.Pcap(tmp_path / "a.pcap", columns=columns, ends="drained")
    planner = pcap.planner(tmp_path / "pcap")
    start = planner.initial()
    expected, _ = read_range(pcap, planner, start, planner.latest(start, Limit()), 2)
    assert rows.equals(expected)
    assert rows.height > 300


def test_a_rate_releases_packets_and_punctuation_is_the_next_packets_time() -> None:
    now = [10**9]
    source = synth.Source(PLAIN, rate=1_000)
    planner = SynthPlanner(source, lambda: now[0])
    first = planner.latest(planner.initial(), Limit())
    assert first["n"] == 1
    assert planner.latest(first, Limit()) == first
    now[0] += 2 * 10**9
    later = planner.latest(first, Limit())
    assert later["n"] == 2_001
    assert planner.backlog(first).rows == 2_000
    rows, _ = read_range(source, planner, later, {**later, **planner.latest(later, Limit(rows=1))}, 1)
    assert rows.height == 0
    now[0] += 10**9
    rows, _ = read_range(source, planner, later, planner.latest(later, Limit(rows=1)), 1)
    assert planner.punctuation(later, None) == rows["time"].to_physical()[0]
    end = {"window": planner._plan.count, "row": 0, "n": 0, "began_ns": 0}
    assert planner.finished(end)
    assert planner.punctuation(end, None) == END_OF_TIME


def test_exchanges_too_long_for_a_window_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument) as error:
        synth.write(tmp_path / "a.pcap", dataclasses.replace(PLAIN, rate=1, concurrent_flows=10**6))
    assert error.value.parameters["what"] == "concurrent_flows and rate"


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_header_trace_decodes_to_its_truth(form: str, tmp_path: Path) -> None:
    truth = synth.write_headers(tmp_path / f"a.{form}", packets=20_000, flows=3_000, snap_bytes=64, seed=3)
    packets = read(tmp_path / f"a.{form}")
    assert (packets.height, packets["length"].sum()) == (truth.packets, truth.bytes)
    assert (packets["reason"] == 0).all()
    assert packets["captured"].max() == 64
    assert truth.flows.height > 2_950
    assert found_flows(tmp_path / f"a.{form}").equals(truth.flows.select(FLOW).sort(FLOW))


def test_checksums_of_a_header_trace_hold_for_payloads_of_zeros(tmp_path: Path) -> None:
    synth.write_headers(tmp_path / "a.pcap", packets=2_000, flows=50)
    for time_us, captured, length in wire.records(tmp_path / "a.pcap"):
        wire.checked((captured + bytes(length - len(captured)))[14:], time_us, length)


def test_a_header_trace_is_repeatable(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synth.write_headers(tmp_path / name, packets=5_000, flows=100, seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b
    assert a != c


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"subscribers": 0}, "subscribers"),
        ({"subscribers": 10**7}, "subscribers"),
        ({"cells": 0}, "cells"),
        ({"seed": -1}, "seed"),
        ({"loss": 1.5}, "loss"),
        ({"rate": 0}, "rate"),
        ({"tunnel": "gre"}, "tunnel"),
        ({"duration": "0s"}, "duration and stay"),
        ({"duration": "soon"}, "duration"),
    ],
)
def test_a_traffic_that_cannot_be_is_refused(options: dict[str, object], what: str) -> None:
    with pytest.raises(BadArgument) as error:
        synth.Traffic(**options)  # type: ignore[arg-type]
    assert error.value.parameters["what"] == what


def test_a_mean_that_the_mix_cannot_reach_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument) as error:
        synth.write(tmp_path / "a.pcap", dataclasses.replace(PLAIN, mean_bytes=1_400))
    assert error.value.parameters["what"] == "mean_bytes"
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_a_capture_and_says_what_is_in_it(tmp_path: Path) -> None:
    out = tmp_path / "a.pcapng"
    options = ["--rate", "1000", "--duration", "1s", "--tunnel", "gtp", "--subscribers", "5", "--seed", "4"]
    answer = CliRunner().invoke(app, ["net", "synth", str(out), *options])
    assert answer.exit_code == 0, answer.output
    traffic = synth.Traffic(rate=1_000, duration="1s", tunnel="gtp", subscribers=5, seed=4)
    truth = synth.write(tmp_path / "b.pcapng", traffic)
    assert out.read_bytes() == (tmp_path / "b.pcapng").read_bytes()
    assert f"{truth.packets} packets" in answer.output
    assert all(name in answer.output for name in truth.applications["application"])
