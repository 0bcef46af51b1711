"""A source of chosen rows at chosen seconds, and topologies of one operator on it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

import penstock as ps
from penstock.testing import Epoch, ReferenceRun

START = dt.datetime(2026, 1, 1)
Row = tuple[int | None, Any, Any]


def at(second: float) -> dt.datetime:
    return START + dt.timedelta(seconds=second)


def rows(*events: Row) -> ps.Generator:
    """Rows (second, k, v) in this order. After each, time is promised to have come to the greatest so far."""
    seconds = [second or 0 for second, _, _ in events]
    return _generator(events, lambda n: at(max(seconds[:n], default=0)))


def patient_rows(*events: Row) -> ps.Generator:
    """Rows (second, k, v) in this order, none of which is late: no more is promised than is kept."""
    seconds = [second or 0 for second, _, _ in events]
    return _generator(events, lambda n: at(min(seconds[n:])))


def _generator(events: Sequence[Row], time_of: Callable[[int], dt.datetime]) -> ps.Generator:
    columns = {
        "time": [None if second is None else at(second) for second, _, _ in events],
        "k": [k for _, k, _ in events],
        "v": [v for _, _, v in events],
    }
    frame = pl.DataFrame(columns, schema={"time": pl.Datetime("us"), "k": pl.String, "v": pl.Int64})
    schema = {"time": dt.datetime, "k": str, "v": int}
    return ps.Generator(
        lambda first, count: frame[first : first + count],
        schema=schema, rows=len(events), time="time", time_of=time_of,
    )  # fmt: skip


def started(
    build: Callable[..., ps.Stream], *sources: ps.Generator, keep_decoded: bool = True
) -> ReferenceRun:
    """A run of one operator over these sources; all its outputs are collected under their names."""
    top = ps.Topology("t")
    stream = build(*(top.source(f"source{n}", source) for n, source in enumerate(sources)))
    for output in top.graph[stream.node].spec.output_names():
        stream.output(output).sink(f"to-{output}", ps.Collect())
    return ReferenceRun(top, keep_decoded=keep_decoded)


def epochs(run: ReferenceRun, *sizes: int) -> ReferenceRun:
    for size in sizes:
        run.step(Epoch(size))
    return run


def out(run: ReferenceRun, output: str = "out") -> list[tuple[Any, ...]]:
    frame = run.result()[f"to-{output}"]
    return sorted(frame.rows(), key=str)


def held(run: ReferenceRun) -> int:
    """Rows that the operator's slices hold, of all kinds."""
    total = 0
    for one in run._held.values():
        parts: Sequence[Any] = list(one.state.values()) if isinstance(one.state, dict) else [one.state]
        total += sum(len(part) for part in parts)
    return total
