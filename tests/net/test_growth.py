"""Captures that are still being written: every packet once, whatever the file looks like in between."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from tests.net import making as m
from tests.net.test_source import ng, packets

from penstock.connect.source import BadRecord, Limit, Offset
from penstock.net import Pcap
from penstock.net.boundaries import ends_whole
from penstock.net.growth import SETTLED_NS
from penstock.net.planner import PcapPlanner
from penstock.testing.sources import read_range

FORMS = {"pcap": m.pcap(packets(200)), "pcapng": ng(100)}
NOW_NS = 1_000 * 10**9
ALL = Limit()


@pytest.fixture(autouse=True)
def _small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PcapPlanner, "min_split_bytes", 100)


class Follower:
    """Follows files as a run does: epoch by epoch, with a new planner whenever it is restarted."""

    def __init__(self, source: Pcap, state: Path) -> None:
        self.source, self._state = source, state
        self.now_ns = NOW_NS
        self.restart()
        self.offset: Offset = self.planner.initial()
        self.frames: list[pl.DataFrame] = []
        self.bad: list[BadRecord] = []

    def restart(self) -> None:
        self.planner = PcapPlanner(self.source, self._state, lambda: self.now_ns)

    def epoch(self, limit: Limit = ALL) -> bool:
        end = self.planner.latest(self.offset, limit)
        if end == self.offset:
            return False
        rows, bad = read_range(self.source, self.planner, self.offset, end, 2)
        again, _ = read_range(self.source, self.planner, self.offset, end, 1)
        assert again.equals(rows), "an epoch must be repeatable, also when the file has grown"
        self.planner.commit(end)
        self.frames.append(rows)
        self.bad += bad
        self.offset = end
        return True

    def drain(self, limit: Limit = ALL) -> None:
        while self.epoch(limit):
            pass

    @property
    def rows(self) -> pl.DataFrame:
        return pl.concat(self.frames)


def pieces(data: bytes, seed: int) -> Iterator[bytes]:
    """The data in pieces that end anywhere, the first of them within the file's header."""
    draw = random.Random(seed)
    cuts = sorted({0, 10, *(draw.randrange(len(data)) for _ in range(25)), len(data)})
    return (data[a:b] for a, b in itertools.pairwise(cuts))


def whole(data: bytes, folder: Path) -> pl.DataFrame:
    folder.mkdir()
    (folder / "whole").write_bytes(data)
    follower = Follower(Pcap(folder / "whole"), folder / "state")
    follower.drain()
    return follower.rows


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", [Limit(), Limit(rows=7), Limit(bytes=500)], ids=["all", "rows", "bytes"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_growing_file_gives_every_packet_once(form: str, limit: Limit, seed: int, tmp_path: Path) -> None:
    path = tmp_path / "in.cap"
    follower = Follower(Pcap(path), tmp_path / "state")
    for number, piece in enumerate(pieces(FORMS[form], seed)):
        with open(path, "ab") as file:
            file.write(piece)
        os.utime(path, ns=(NOW_NS, NOW_NS + number))
        follower.drain(limit)
        if number % 3 == 0:
            follower.restart()
    assert follower.rows.equals(whole(FORMS[form], tmp_path / "reference"))
    assert follower.bad == []


def test_counts_of_a_growing_file_are_those_of_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    follower = Follower(Pcap(path, rows="counts"), tmp_path / "state")
    for piece in pieces(FORMS["pcap"], 3):
        with open(path, "ab") as file:
            file.write(piece)
        follower.drain()
    assert follower.rows["packets"].sum() == 200


def test_files_that_grow_side_by_side_and_files_that_come_are_all_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    follower = Follower(Pcap(folder), tmp_path / "state")
    one, two = pieces(FORMS["pcap"], 4), pieces(FORMS["pcapng"], 5)
    for number, (a, b) in enumerate(zip(one, two, strict=False)):
        for name, piece in (("a.pcap", a), ("b.pcapng", b)):
            with open(folder / name, "ab") as file:
                file.write(piece)
        if number == 10:
            (folder / "c.pcap").write_bytes(FORMS["pcap"])
        follower.drain()
    for name, rest in (("a.pcap", one), ("b.pcapng", two)):
        with open(folder / name, "ab") as file:
            file.write(b"".join(rest))
    follower.drain()
    expected = 2 * whole(FORMS["pcap"], tmp_path / "1").height + whole(FORMS["pcapng"], tmp_path / "2").height
    assert (follower.rows.height, follower.bad) == (expected, [])


def test_a_record_that_is_never_finished_is_told_once_when_the_file_has_settled(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    path.write_bytes(FORMS["pcap"][:-3])
    os.utime(path, ns=(NOW_NS, NOW_NS))
    follower = Follower(Pcap(path), tmp_path / "state")
    follower.drain()
    assert (follower.rows.height, follower.bad) == (199, [])
    follower.now_ns += SETTLED_NS
    follower.drain()
    follower.restart()
    follower.drain()
    assert (follower.rows.height, len(follower.bad)) == (199, 1)


def test_a_file_that_goes_on_after_it_was_thought_ended_gives_the_record_still(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    path.write_bytes(FORMS["pcap"][:-3])
    follower = Follower(Pcap(path), tmp_path / "state")
    os.utime(path, ns=(NOW_NS - SETTLED_NS, NOW_NS - SETTLED_NS))
    follower.drain()
    assert (follower.rows.height, len(follower.bad)) == (199, 1)
    path.write_bytes(FORMS["pcap"])
    follower.drain()
    assert follower.rows.height == 200


def test_a_drained_source_ends_behind_a_record_that_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    path.write_bytes(FORMS["pcap"][:-3])
    os.utime(path, ns=(NOW_NS, NOW_NS))
    follower = Follower(Pcap(path, ends="drained"), tmp_path / "state")
    assert follower.epoch()
    assert not follower.planner.finished(follower.offset)
    follower.drain()
    assert follower.planner.finished(follower.offset)
    assert (follower.rows.height, len(follower.bad)) == (199, 1)


@pytest.mark.parametrize("after", [FORMS["pcap"][:500], m.pcap(packets(300)[100:])], ids=["cut", "replaced"])
def test_a_file_that_was_cut_short_or_replaced_is_a_bad_record(after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    path.write_bytes(FORMS["pcap"])
    follower = Follower(Pcap(path), tmp_path / "state")
    follower.drain()
    path.write_bytes(after)
    follower.drain()
    assert follower.rows.height == 200
    assert [("changed" in bad.reason, bad.where) for bad in follower.bad] == [(True, "in.pcap")]


@pytest.mark.parametrize("form", FORMS)
def test_the_end_of_a_large_file_tells_whether_it_is_whole(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.net.boundaries._TAIL_BYTES", 2000)
    path = tmp_path / "in.cap"
    path.write_bytes(FORMS[form])
    size = path.stat().st_size
    assert ends_whole(str(path), size)
    assert not any(ends_whole(str(path), size - cut) for cut in range(1, 40))
