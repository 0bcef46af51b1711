"""Punctuations on Spark: late events are told, idle sources hold nothing up, and all is as in the oracle."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock.testing import Epoch, run
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


ROWS = 450_000


def disordered(first: int, count: int) -> pl.DataFrame:
    """An event every millisecond, some behind by up to a second; the source promises a tenth of one."""
    n = np.arange(first, first + count)
    draw = (n * 2654435761) % 4294967296
    behind = np.where(draw % 50 == 0, draw // 50 % 1000, draw // 50 % 100)
    # All around the middle is late; where a split begins there, only by what the split before it gave.
    behind += np.where(abs(n - ROWS // 2) < 5_000, 20_000, 0)
    times = pl.Series((n - behind) * 1000).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": times, "k": pl.Series(n % 7).cast(pl.String), "v": n})


def many(per_epoch: int) -> ps.Topology:
    """Operators on disordered events, whose late ones are told apart by the sender and by the receiver."""
    columns = {"time": dt.datetime, "k": str, "v": int}
    source = ps.Generator(disordered, schema=columns, rows=ROWS, time="time", lateness="100ms")
    top = ps.Topology("many")
    events = top.source("events", source, rows_per_epoch=per_epoch)
    windows = events.aggregate("windows", by="k", window=ps.tumbling("250ms"), n=ps.count(), parallelism=3)
    spread = events.shuffle().map("spread", lambda df: df, parallelism=2)
    first = spread.dedupe("first", "k", within="50ms", parallelism=3)
    for stream in (windows, first):
        stream.sink(f"{stream.node}-out", ps.Collect())
        stream.output("late").sink(f"{stream.node}-late", ps.Collect())
    return top


@pytest.mark.long
@pytest.mark.parametrize("per_epoch", [ROWS, 210_000])
def test_late_events_are_the_same_whatever_the_epochs_and_the_tasks(
    spark_run: Any, same_rows: Any, per_epoch: int
) -> None:
    top = many(per_epoch)
    with spark_run.start(top) as handle:
        handle.wait()
        history = handle.history()
    expected = run(top, epochs=[Epoch(70_000, 3)], rows_per_epoch=97_000)
    late = {"windows-late": ("k", "start")}
    for name, found in spark_run.collected(top).items():
        rows = [
            frame.group_by(late[name]).sum() if name in late else frame for frame in (found, expected[name])
        ]
        same_rows(*rows)
    assert expected["windows-late"]["events"].sum() > 10_000
    assert sum(progress.late for progress in history) == expected["windows-late"]["events"].sum()


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
