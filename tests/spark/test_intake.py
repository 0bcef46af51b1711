"""The intake next to the driver, asked as Spark asks it; no JVM is needed for that."""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import penstock as ps
from penstock.control.restarting import kind_of
from penstock.control.run_directory import RunDirectory
from penstock.errors import Fenced, SourceUnavailable
from penstock.plan.passes import plan
from penstock.spark.intake import IntakeReader
from penstock.spark.reading import IntakePartition
from penstock.testing.chaos.faults import Fault, lay_out
from penstock.testing.chaos.watched import with_points


def moments(first: int, count: int) -> pl.DataFrame:
    return numbers(first, count).select(time=pl.col("n").cast(pl.Datetime("us")))


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": pl.int_range(first, first + count, eager=True)})


def opened(tmp_path: Path, top: ps.Topology) -> IntakeReader:
    """The intake of a run of a topology."""
    directory = RunDirectory(tmp_path / "run")
    directory.open(top.name)
    term = directory.begin_term()
    directory.store(1, plan(top))
    directory.make_current(1)
    return IntakeReader(str(directory.path), "run", term=term, tasks=2, reads_ahead=True)


def bounds_of(parts: list[IntakePartition]) -> list[int | None]:
    return [share.bound for part in parts for share in part.shares]


def test_an_epoch_that_is_run_again_judges_times_by_the_same_clock(tmp_path: Path) -> None:
    columns = {"time": dt.datetime}
    top = ps.Topology("t")
    source = ps.Generator(moments, schema=columns, rows=10, time="time", ahead="1h")
    top.source("input", source, rows_per_epoch=4).sink("out", ps.Collect())
    reader = opened(tmp_path, top)
    start = reader.initialOffset()
    before_us = time.time_ns() // 1000
    end = json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))
    bound = end["punctuation"]["bounds"]["input"]
    assert before_us <= bound - 3_600_000_000 <= time.time_ns() // 1000
    first = reader.partitions(start, end)
    assert set(bounds_of(first)) == {bound}
    again = IntakeReader(str(tmp_path / "run"), "run", term=1, tasks=2, reads_ahead=False)
    assert bounds_of(again.partitions(start, end)) == bounds_of(first)
    following = reader.latestOffset(end, ReadAllAvailable())
    foreseen = [share for part in first for share in part.following]
    assert [share for part in reader.partitions(end, following) for share in part.shares] == foreseen
    del end["punctuation"]["bounds"]  # an epoch that was planned before there was a bound
    assert set(bounds_of(again.partitions(start, end))) == {None}


def test_an_epoch_that_is_run_again_begins_with_the_same_watermarks(tmp_path: Path) -> None:
    top = ps.Topology("t")
    source = ps.Generator(moments, schema={"time": dt.datetime}, rows=10, time="time")
    top.source("input", source, rows_per_epoch=4).sink("out", ps.Collect())
    reader, directory = opened(tmp_path, top), RunDirectory(tmp_path / "run")
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadAllAvailable())
    directory.write_observed({"input": 3})  # as the commit of the first epoch does
    second = reader.latestOffset(first, ReadAllAvailable())
    directory.write_observed({"input": 7})  # the sinks have committed, and then the driver died
    again = IntakeReader(str(directory.path), "run", term=1, tasks=2, reads_ahead=False)
    observed = [reader.partitions(*epoch)[0].observed for epoch in ((start, first), (first, second))]
    assert observed == [{}, {"input": 3}]
    assert again.partitions(first, second)[0].observed == {"input": 3}
    del second["punctuation"]["observed"]  # an epoch that was planned before it was noted
    assert again.partitions(first, second)[0].observed == {}


def plan_and_commit(reader: IntakeReader) -> None:
    """What Spark asks the driver's side of a source in an epoch."""
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.partitions(start, end)
    reader.commit(end)


@pytest.mark.parametrize("point", ["planning", "after-offsets", "after-commit"])
def test_a_source_whose_place_fails_is_unavailable_and_waited_for(tmp_path: Path, point: str) -> None:
    """Also a source of the user's own, which knows nothing of Penstock's errors."""
    top = ps.Topology("numbers")
    top.source("input", ps.Generator(numbers, schema={"n": int}, rows=10)).sink("out", ps.Collect())
    lay_out(tmp_path / "faults", [Fault(point, 1, "fail", 60.0)])
    directory = RunDirectory(tmp_path / "run")
    directory.open("numbers")
    term = directory.begin_term()
    directory.store(1, plan(with_points(top, tmp_path / "faults")))
    directory.make_current(1)
    reader = IntakeReader(str(directory.path), "run", term=term, tasks=2, reads_ahead=False)
    with pytest.raises(SourceUnavailable) as caught:
        plan_and_commit(reader)
    assert caught.value.parameters["source"] == "input"
    assert "Input/output error" in caught.value.parameters["what"]
    told = directory.take_failure()
    assert told is not None
    assert kind_of(told) == "away"


def test_a_runner_that_was_replaced_plans_no_epoch(tmp_path: Path) -> None:
    top = ps.Topology("numbers")
    top.source("input", ps.Generator(numbers, schema={"n": int}, rows=10)).sink("out", ps.Collect())
    reader = opened(tmp_path, top)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) != start
    RunDirectory(tmp_path / "run").begin_term()
    with pytest.raises(Fenced):
        reader.latestOffset(start, ReadAllAvailable())
