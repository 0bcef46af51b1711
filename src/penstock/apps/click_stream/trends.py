"""The most frequent patterns of each window, and how their ranks have changed since the window before."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import polars as pl

import penstock as ps
from penstock.operators.event_time import as_us, in_order
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

WAITING, LEADING = "waiting", "leading"
State = dict[str, TimedRows]


@dataclass(frozen=True)
class Strongest:
    """The first ``k`` of each window in a batch: the others cannot be among the first of all."""

    k: int

    def __call__(self, counts: pl.DataFrame) -> pl.DataFrame:
        ordered = in_order(counts, "end", "visits", "pattern", descending=["visits"])
        return ordered.group_by("end", maintain_order=True).head(self.k).select(counts.columns)


@dataclass(frozen=True)
class Trends(ps.Operator):
    """Ranks the patterns of each window and says which rank each had in the window before (``before``).

    Of equally frequent patterns the first by name leads. A rank that nobody holds any more is emitted once
    without a pattern. State: windows that are not complete, and the leaders of the last one.
    """

    k: int
    returns = {
        "end": dt.datetime, "rank": int, "pattern": str, "visits": int, "before": int, "trend": str,
    }  # fmt: skip

    def init_state(self) -> State:
        return {WAITING: TimedRows("end"), LEADING: TimedRows("end")}

    def process(self, batch: pl.DataFrame, state: State, emit: Emit) -> None:
        state[WAITING].append(batch.select("end", "pattern", "visits"))

    def on_punctuation(self, time: dt.datetime, state: State, emit: Emit) -> None:
        # The rows of a window have the time of its end, so they are all here when the end has come.
        clock = as_us(time) + 1
        ready = released(state[WAITING], clock)
        if ready is None:
            return
        leading = state[LEADING].frame() if len(state[LEADING]) else None
        for window in Strongest(self.k)(ready).partition_by("end", maintain_order=True):
            ranked = window.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
            emit(_compared(ranked, leading).select(*self.returns))
            leading = ranked
        assert leading is not None  # what is ready has at least one window
        state[LEADING].drop(np.ones(len(state[LEADING]), np.bool_))
        state[LEADING].append(leading)


def _compared(now: pl.DataFrame, before: pl.DataFrame | None) -> pl.DataFrame:
    """The window's leaders with the rank that each had before, and ranks that are free now."""
    if before is None:
        before = now.clear()
    ranks = before.select("pattern", before="rank")
    rows = now.join(ranks, on="pattern", how="left", maintain_order="left")
    rows = rows.with_columns(trend=_trend(pl.col("before"), pl.col("rank")))
    free = before.filter(pl.col("rank") > now.height).select(
        end=now["end"][0], rank="rank", pattern=pl.lit(None, pl.String), visits=pl.lit(0, pl.Int64)
    )
    return pl.concat([rows, free], how="diagonal")


def _trend(before: pl.Expr, rank: pl.Expr) -> pl.Expr:
    steps = (before - rank).abs().cast(pl.String)
    return (
        pl.when(before.is_null())
        .then(pl.lit("new"))
        .when(before > rank)
        .then(pl.concat_str(pl.lit("up "), steps))
        .when(before < rank)
        .then(pl.concat_str(pl.lit("down "), steps))
        .otherwise(pl.lit("same"))
    )
