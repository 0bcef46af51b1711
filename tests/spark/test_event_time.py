"""Punctuations on Spark: late events are told, idle sources hold nothing up, and all is as in the oracle."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.testing import run
from tests.operators.event_time_kit import at, rows

pytestmark = pytest.mark.spark
EVENTS = ((1, "a", 1), (2, "b", 2), (15, "a", 3), (3, "a", 4), (4, "b", 5), (31, "b", 6))


def unruly(per_epoch: int) -> ps.Topology:
    """One source of events, some of them behind what it promised, into every operator."""
    top = ps.Topology("unruly")
    events = top.source("events", rows(*EVENTS), rows_per_epoch=per_epoch)
    streams = [
        events.aggregate("counted", by="k", window=ps.tumbling("10s"), n=ps.count(), parallelism=2),
        events.aggregate("kept", by="k", window=ps.tumbling("10s"), n=ps.count(), late="kept", parallelism=2),
        events.aggregate("counts", by="k", window=ps.count_window(2), n=ps.sum("v"), parallelism=2),
        events.dedupe("dedupe", "k", within="1s", parallelism=2),
        events.restore_order("order"),
        events.top_k("best", 1, by="v", group="k", parallelism=2),
    ]
    for stream in streams:
        stream.sink(f"{stream.node}-out", ps.Collect())
        stream.output("late").sink(f"{stream.node}-late", ps.Collect())
    return top


def ticks(first: int, count: int) -> pl.DataFrame:
    numbers = range(first, first + count)
    return pl.DataFrame({"time": [at(n) for n in numbers], "k": ["a"] * count, "v": list(numbers)})


def test_late_events_are_counted_and_put_aside_as_in_the_oracle(spark_run: Any, same_rows: Any) -> None:
    top = unruly(3)
    with spark_run.start(top) as handle:
        handle.wait()
        history = handle.history()
    expected = run(top)
    for name, found in spark_run.collected(top).items():
        same_rows(found, expected[name])
    assert sum(progress.late for progress in history) == 2
    late = {node.node: node.late for progress in history for node in progress.nodes if node.late}
    assert late == dict.fromkeys(("events", "counted", "kept", "counts", "dedupe", "order", "best"), 2)


def test_an_empty_folder_that_is_watched_holds_no_window_open(spark_run: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    columns = {"time": dt.datetime, "k": str, "v": int}
    top = ps.Topology("idle")
    events = top.source("events", ps.Generator(ticks, schema=columns, rate=100, time="time", time_of=at))
    files = ps.Files(tmp_path / "in", format="parquet", schema=columns, time="time")
    both = events.union("both", top.source("files", files, idle="500ms"))
    both.restore_order("order").sink("out", ps.Collect())
    waiting = top.source("waiting", files, idle=None)
    events.join("pairs", waiting, on="k", within="0s", how="left").sink("held", ps.Collect())
    with spark_run.start(top, until="stopped") as handle:
        deadline = time.monotonic() + 30
        while not spark_run.collected(top)["out"].height and time.monotonic() < deadline:
            handle.poll(0.1)
    found = spark_run.collected(top)
    numbers = found["out"]["v"].to_list()
    assert numbers == list(range(len(numbers)))
    assert numbers
    assert found["held"].height == 0
