"""Flows: two directions in one record, ended by the time of the packets."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.net import making as m
from tests.net.answers import DATA, MISSING, read

import penstock as ps
from penstock import net
from penstock.testing import run

HERE, THERE = "10.0.0.1", "10.0.0.2"


def question(port: int = 5000) -> bytes:
    return m.ethernet(m.ipv4(m.udp(b"?", src=port, dst=53), src=HERE, dst=THERE))


def answer(port: int = 5000) -> bytes:
    return m.ethernet(m.ipv4(m.udp(b"!!!", src=53, dst=port), src=THERE, dst=HERE))


def flows(path: Path, rows_per_epoch: int | None = None, **options: str) -> pl.DataFrame:
    top = ps.Topology("flows")
    packets = top.source("packets", net.Pcap(path, ends="drained"))
    keyed = packets.map("key", net.flow_key).key_by(*net.FLOW_KEY)
    keyed.process("flows", net.Flows(**options)).sink("out", ps.Collect())
    found = run(top, rows_per_epoch=rows_per_epoch) if rows_per_epoch else run(top)
    return found["out"].sort("first_time", "src_port")


def test_both_directions_are_one_flow_and_the_first_packet_says_who_began(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(m.pcap([answer(), question(), answer()]))
    (row,) = flows(tmp_path).iter_rows(named=True)
    assert (row["src_port"], row["dst_port"]) == (53, 5000)
    assert (row["src2dst_packets"], row["dst2src_packets"]) == (2, 1)
    assert (row["src2dst_bytes"], row["dst2src_bytes"]) == (2 * len(answer()), len(question()))


@pytest.mark.parametrize("rows_per_epoch", [None, 1, 3])
def test_a_pause_longer_than_idle_ends_a_flow_however_epochs_are_cut(
    tmp_path: Path, rows_per_epoch: int | None
) -> None:
    filler = [question(6000 + i) for i in range(8)]
    (tmp_path / "a.pcap").write_bytes(m.pcap([question(), answer(), *filler, question(), answer()]))
    found = flows(tmp_path, rows_per_epoch, idle="5s").filter(pl.col("src_port") == 5000)
    assert found["src2dst_packets"].to_list() == [1, 1]
    assert found["dst2src_packets"].to_list() == [1, 1]


def test_a_flow_that_goes_on_is_cut_by_active(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(m.pcap([question()] * 10))
    assert flows(tmp_path, active="3500ms")["src2dst_packets"].to_list() == [4, 4, 2]


@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
def test_no_packet_of_a_real_capture_is_lost_or_counted_twice() -> None:
    path = DATA / "dpi" / "KakaoTalk_talk.pcap"
    found, packets = flows(path), read(path).filter(pl.col("ip_version") > 0)
    sums = found.select(pl.sum("src2dst_packets", "dst2src_packets", "src2dst_bytes", "dst2src_bytes")).row(0)
    assert (sums[0] + sums[1], sums[2] + sums[3]) == (packets.height, packets["length"].sum())
