"""Sources with a fixed order: the same late events from files, a spool and captures, however they are cut."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.net import making as m
from tests.operators.event_time_kit import at, rows
from tests.operators.lateness_oracle import is_behind, parted

import penstock as ps
from penstock import net
from penstock.connect import spool_planner
from penstock.connect.clocks import watermarks
from penstock.connect.file_planner import FilesPlanner
from penstock.connect.source import Limit, Source
from penstock.connect.spool import segments
from penstock.engine.watermarks import Reached, Starts
from penstock.net.planner import PcapPlanner
from penstock.testing import Epoch, ReferenceRun
from penstock.testing.sources import check_source

SECOND = 1_000_000
CUTS = [Epoch(1000, 1), Epoch(1000, 4), Epoch(1, 1), Epoch(5, 3), Epoch(7, 1), Epoch(40, 2)]
TIMES = [n + (-9 if n % 5 == 4 else 0) + (-14 if n % 11 == 7 else 0) for n in range(20, 80)]
"""Seconds, with disorder within splits and files and across them."""


@pytest.fixture(autouse=True)
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let planners cut inputs of a few bytes."""
    monkeypatch.setattr(FilesPlanner, "min_split_bytes", 1)
    monkeypatch.setattr(PcapPlanner, "min_split_bytes", 1)
    monkeypatch.setattr(spool_planner, "_MIN_SPLIT_BYTES", 1)


def lines(times: list[int]) -> str:
    return "".join(
        json.dumps({"time": at(second).isoformat(), "v": n}) + "\n" for n, second in enumerate(times)
    )


def files(folder: Path) -> ps.Files:
    folder.mkdir()
    for n in range(0, len(TIMES), 13):
        (folder / f"{n:03}.jsonl").write_text(lines(TIMES[n : n + 13]))
    columns = {"time": dt.datetime, "v": int}
    return ps.Files(folder, format="jsonl", schema=columns, time="time", lateness="3s", ends="drained")


def parquet(folder: Path) -> ps.Files:
    folder.mkdir()
    frame = pl.DataFrame({"time": [at(second) for second in TIMES], "v": range(len(TIMES))})
    frame.write_parquet(folder / "a.parquet", row_group_size=8)
    columns = {"time": dt.datetime, "v": int}
    return ps.Files(folder, format="parquet", schema=columns, time="time", lateness="3s", ends="drained")


def capture(folder: Path) -> net.Pcap:
    folder.mkdir()
    frame = m.ethernet(m.ipv4(m.udp(b"hello")))
    for n in range(0, len(TIMES), 13):
        packets = [m.pcap([frame], start_s=1_750_000_000 + s)[24:] for s in TIMES[n : n + 13]]
        (folder / f"{n:03}.pcap").write_bytes(b"".join([m.pcap([]), *packets]))
    return net.Pcap(folder, columns=["time", "length"], lateness="3s", ends="drained")


def lates(source: Source, cut: Epoch) -> tuple[Counter[Any], int, int]:
    """The late seconds, and what source and operator count."""
    top = ps.Topology("t")
    order = top.source("events", source).restore_order("order")
    order.sink("out", ps.Collect())
    order.output("late").sink("late", ps.Collect())
    run = ReferenceRun(top, seed=3)
    run.drain(cut)
    found = run.result()["late"]["time"].dt.second().to_list()
    kept = run.result()["out"]
    assert kept["time"].is_sorted()
    assert kept.height + len(found) == len(TIMES)
    return Counter(found), run.counters.nodes["events"]["late"], run.counters.nodes["order"]["late"]


def expected(base: int = 0) -> tuple[Counter[Any], int, int]:
    _, late = parted([{"time": second * SECOND} for second in TIMES], 3 * SECOND, is_behind)
    seconds = Counter((base + row["time"] // SECOND) % 60 for row in late)
    return seconds, seconds.total(), seconds.total()


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.rows} rows in {cut.splits} splits")
@pytest.mark.parametrize("make", [files, parquet])
def test_files_give_the_same_late_events_however_they_are_cut(make: Any, cut: Epoch, tmp_path: Path) -> None:
    assert lates(make(tmp_path / "in"), cut) == expected()


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.rows} rows in {cut.splits} splits")
def test_captures_give_the_same_late_packets_however_they_are_cut(cut: Epoch, tmp_path: Path) -> None:
    assert lates(capture(tmp_path / "in"), cut) == expected(1_750_000_000)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.rows} rows in {cut.splits} splits")
def test_a_spool_gives_the_same_late_events_however_it_is_cut(cut: Epoch) -> None:
    columns = {"time": dt.datetime, "v": int}
    source = ps.Stdin(format="jsonl", schema=columns, time="time", lateness="3s")
    top = ps.Topology("t")
    order = top.source("events", source).restore_order("order")
    order.output("late").sink("late", ps.Collect())
    run = ReferenceRun(top)
    folder = run._folder / "events"
    folder.mkdir()
    for number, first in enumerate(range(0, len(TIMES), 25)):
        (folder / f"{number:012d}.lines").write_text(lines(TIMES[first : first + 25]))
    (folder / "ended").touch()
    assert len(segments(folder)) == 3
    run.drain(cut)
    assert Counter(run.result()["late"]["time"].dt.second().to_list()) == expected()[0]


@pytest.mark.parametrize("make", [files, parquet, capture])
def test_no_planner_promises_more_than_rows_are_late_by(make: Any, tmp_path: Path) -> None:
    source = make(tmp_path / "in")
    check_source(lambda: source, tmp_path / "state", limits=(Limit(rows=1), Limit(rows=7)))


def test_a_planner_that_promises_too_much_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = files(tmp_path / "in")
    monkeypatch.setattr(FilesPlanner, "punctuation", lambda self, offset, observed: observed)
    with pytest.raises(AssertionError, match="would find its window closed"):
        check_source(lambda: source, tmp_path / "state", limits=(Limit(rows=7),))


def test_what_operators_emit_is_never_late_behind_them() -> None:
    events = [(n % 40 + n // 3, "ab"[n % 2], n) for n in range(120)]
    results = []
    for cut in CUTS:
        top = ps.Topology("t")
        counts = top.source("events", rows(*events)).aggregate(
            "counts", by="k", window=ps.sliding(length="4s", every="2s"), n=ps.count(), parallelism=2
        )
        wider = counts.aggregate("wider", window=ps.tumbling("8s"), time="end", n=ps.sum("n"))
        best = counts.top_k("best", 1, by="n", group="end", time="end")
        for stream in (wider, best):
            stream.sink(f"{stream.node}-out", ps.Collect())
            stream.output("late").sink(f"{stream.node}-late", ps.Collect())
        run = ReferenceRun(top, seed=1)
        run.drain(cut)
        result = run.result()
        assert result["wider-late"].height == result["best-late"].height == 0
        results.append({name: Counter(frame.rows()) for name, frame in result.items()})
    assert all(result == results[0] for result in results)
    assert results[0]["wider-out"]


def test_a_source_that_wakes_up_is_late_by_the_time_of_the_operator(tmp_path: Path) -> None:
    columns = {"time": dt.datetime, "v": int}
    top = ps.Topology("t")
    a = top.source("a", rows(*((second, "a", 0) for second in range(0, 60, 5))), idle="1s")
    b = top.source("b", ps.Files(tmp_path, format="jsonl", schema=columns, time="time"), idle="1s")
    order = a.map("same", lambda df: df.select("time", "v")).union("both", b).restore_order("order")
    order.output("late").sink("late", ps.Collect())
    run = ReferenceRun(top)
    run.step(Epoch(1))
    run.now_ns = 2 * 10**9
    run.step(Epoch(5))
    (tmp_path / "a.jsonl").write_text(lines([1, 2, 50]))
    run.step(Epoch(3))
    assert run.result()["late"]["time"].to_list() == [at(1), at(2)]


@given(st.lists(st.tuples(st.integers(0, 99), st.none() | st.integers(-50, 50)), max_size=30), st.data())
def test_the_start_of_a_split_is_the_greatest_of_the_splits_before(
    found: list[tuple[int, int | None]], data: st.DataObject
) -> None:
    splits = sorted(dict(found).items())
    told = data.draw(st.permutations([Reached("s", position, mark) for position, mark in splits]))
    starts = Starts(told)
    for number, (position, _) in enumerate(splits):
        following = splits[number + 1][0] if number + 1 < len(splits) else 200
        earlier = [mark for _, mark in splits[:number] if mark is not None]
        for sequence in {position, following - 1}:
            assert starts.of("s", sequence) == max(earlier, default=None)
    assert starts.of("another", 5) is None


@pytest.mark.parametrize(
    "clock",
    [
        lambda n: n * 7,
        lambda n: int(n * 7.5),
        lambda n: at(n // 3),
        lambda n: n if n < 500 else 3 * n,
        lambda n: np.int64(n) * 5,
    ],
)
def test_a_clock_is_asked_as_if_for_each_event(clock: Any) -> None:
    for count in (1, 63, 65, 700, 1500):
        exact = watermarks(clock, 3, 100, np.full(count, -(2**62)))
        told = [clock(100 + n) for n in range(count)]
        epoch, us_each = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)
        us = [(t - epoch) // us_each if isinstance(t, dt.datetime) else int(t) for t in told]
        assert exact.tolist() == [t - 3 for t in us]
        for shift in (0, 2, 40):
            times = np.array(us) - shift
            behind = times < watermarks(clock, 3, 100, times)
            assert behind.tolist() == [shift > 3] * count
