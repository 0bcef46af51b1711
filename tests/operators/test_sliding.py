"""Windows that overlap give what each window's events give, at a cost that follows events and windows."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.operators import event_time_oracle as oracle
from tests.operators.any_order_kit import AGGREGATES, SECOND, Rows, as_rows, contents, made, source, with_x
from tests.operators.event_time_kit import rows, started

import penstock as ps
from penstock.operators import aggregate, ranges, sliding
from penstock.operators.aggregates import Parts
from penstock.operators.partials import EVENTS, Combine, Figures
from penstock.testing import Epoch, ReferenceRun

ALL_CASES = {"suppress_health_check": list(HealthCheck), "deadline": None}


@dataclass(frozen=True)
class Extent(ps.Aggregate):
    """A user's aggregate of two parts, neither of which can be taken back: greatest less least value."""

    column: str

    def parts(self, time: pl.Expr) -> Parts:
        return {"low": pl.col(self.column).min(), "high": pl.col(self.column).max()}

    def merge(self, part: Parts) -> Parts:
        return {"low": part["low"].min(), "high": part["high"].max()}

    def result(self, part: Parts) -> pl.Expr:
        return part["high"] - part["low"]


@pytest.fixture(autouse=True)
def always_by_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the way of many panes for few as well."""
    monkeypatch.setattr(aggregate, "_FEW_WINDOWS", 0)


def extent(some: Rows) -> int | None:
    values = [row["v"] for row in some if row["v"] is not None]
    return max(values) - min(values) if values else None


def believed(arrivals: Rows, length: int, every: int) -> Rows:
    names = sorted(AGGREGATES)
    asked = {"by": ["c", "k"], "length": length * SECOND, "every": every * SECOND}
    figures = {
        (row["c"], row["k"], row["start"]): row for row in oracle.aggregate(arrivals, **asked, names=names)
    }
    for key, row in figures.items():
        c, k, start = key
        inside = [
            r for r in arrivals if (r["c"], r["k"]) == (c, k) and 0 <= r["time"] - start < length * SECOND
        ]
        row["extent"] = extent(inside)
    return list(figures.values())


def windows(arrivals: Rows, length: int, every: int, cuts: list[int]) -> pl.DataFrame:
    names = sorted(AGGREGATES)
    top = ps.Topology("sliding")
    window = ps.sliding(length=dt.timedelta(seconds=length), every=dt.timedelta(seconds=every))
    stream = with_x(top.source("events", source(arrivals)), names, 0)
    figures = {**made(names), "extent": Extent("v")}
    windows = stream.aggregate("windows", by=["c", "k"], window=window, parallelism=2, **figures)
    windows.sink("out", ps.Collect())
    windows.output("late").sink("late", ps.Collect())
    run = ReferenceRun(top)
    for size in cuts:
        run.step(Epoch(size))
    run.drain()
    assert not run.result()["late"].height
    return run.result()["out"]


event = st.tuples(st.integers(0, 60), st.sampled_from([0, 1, None]), st.sampled_from([0, 1, 2, 3, None]))


@pytest.mark.long
@settings(max_examples=150, **ALL_CASES)
@given(
    drawn=st.lists(event, min_size=1, max_size=40),
    length=st.integers(1, 30),
    every=st.integers(1, 9),
    cuts=st.lists(st.integers(1, 15), max_size=5),
    piece_bytes=st.sampled_from([1, 300, 3_000, 1 << 25]),
    emitted_rows=st.integers(1, 50),
)
def test_each_window_has_the_figures_of_its_events(
    drawn: list[Any], length: int, every: int, cuts: list[int], piece_bytes: int, emitted_rows: int
) -> None:
    """In any order of arrival, cut into any epochs, in pieces of any size, for every aggregate there is."""
    arrivals = [{**row, "c": 0} for row in as_rows(drawn)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "PIECE_BYTES", piece_bytes)
        patch.setattr(sliding, "EMITTED_ROWS", emitted_rows)
        found = windows(arrivals, max(length, every), every, cuts)
    got = found.with_columns(pl.col(pl.Datetime).cast(pl.Int64)).to_dicts()
    assert contents(got) == contents(believed(arrivals, max(length, every), every))


def test_a_window_without_groups_is_one_row() -> None:
    run = started(
        lambda stream: stream.aggregate("n", window=ps.sliding(length="3s", every="1s"), n=ps.count()),
        rows((10, "a", 1), (11, "b", 2)),
    )
    run.drain()
    assert [row[-1] for row in run.result()["to-out"].sort("start").rows()] == [1, 2, 2, 1]


@dataclass(frozen=True)
class Counted(ps.Aggregate):
    """Counts the rows of parts that are merged: the work, and not the time that it takes."""

    seen: Counter[str]

    def parts(self, time: pl.Expr) -> Parts:
        return {"of": pl.len().cast(pl.Int64)}

    def merge(self, part: Parts) -> Parts:
        def count(values: pl.Series) -> pl.Series:
            self.seen["rows"] += len(values)
            return values

        return {"of": part["of"].map_batches(count, return_dtype=pl.Int64(), is_elementwise=True).sum()}

    def result(self, part: Parts) -> pl.Expr:
        return part["of"]


def merged_rows(seconds: int, length: int) -> int:
    """Rows that are merged for windows of `length` seconds, one a second, over an event a second."""
    seen: Counter[str] = Counter()
    window = ps.sliding(length=dt.timedelta(seconds=length), every="1s")
    combine = Combine(Figures.of("n", ("k",), {"n": Counted(seen)}), window, "time")
    times = pl.Series(np.arange(seconds) * SECOND).cast(pl.Datetime("us"))
    panes = combine(pl.DataFrame({"time": times, "k": np.zeros(seconds, np.int64)}))
    seen.clear()
    found = pl.concat(sliding.closed_windows(panes, combine, -length * SECOND, seconds * SECOND))
    assert found.height == seconds + length - 1
    assert int(found["n"].sum()) == seconds * length
    return seen["rows"]


def test_the_work_follows_the_events_and_not_events_times_windows() -> None:
    few, many = merged_rows(2_000, 50), merged_rows(2_000, 800)
    assert many < 20 * 2_000
    assert many < 2 * few


def test_windows_of_a_lonely_event_cost_one_merge() -> None:
    partials = pl.DataFrame({"k": [1], EVENTS: [1], "n.of": [1], "start": [dt.datetime(2026, 1, 1)]})
    panes, window = partials["start"].to_physical().to_numpy(), ps.sliding(length="1h", every="1s")
    runs = sliding.runs_of(np.zeros(1, np.int64), panes, window, -(2**62), 2**62)
    assert (len(runs.panes), runs.counts.tolist()) == (1, [3600])
