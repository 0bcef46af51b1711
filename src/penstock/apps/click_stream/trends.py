"""The most frequent patterns of each window, and how their ranks have changed since the window before."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import penstock as ps
from penstock.apps.click_stream.names import NAMES, SEPARATOR, forget_before, name_table, texts_of
from penstock.operators.event_time import as_us, in_order, times
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

WAITING, LEADING = "waiting", "leading"
State = dict[str, Any]


@dataclass(frozen=True)
class Strongest:
    """The first ``k`` of each window in a batch and those equal to the last of them: no others can lead."""

    k: int

    def __call__(self, counts: pl.DataFrame) -> pl.DataFrame:
        return leading_of(counts, self.k).drop("pattern", "start")


@dataclass(frozen=True)
class Trends(ps.Operator):
    """Ranks the patterns of each window and says which rank each had in the window before (``before``).

    Takes patterns as steps, and on its input ``names`` what steps are called. Of equally frequent patterns
    the first by name leads. A rank that nobody holds any more is emitted once without a pattern. State:
    windows that are not complete, names that can still occur, and the leaders of the last window.
    """

    k: int
    steps: int
    window_us: int
    returns = {
        "end": dt.datetime, "rank": int, "pattern": str, "visits": int, "before": int, "trend": str,
    }  # fmt: skip

    def init_state(self) -> State:
        return {WAITING: TimedRows("end"), LEADING: TimedRows("end"), NAMES: name_table()}

    def process(self, batch: pl.DataFrame, state: State, emit: Emit) -> None:
        state[WAITING].append(batch)

    def process_input(self, name: str, batch: pl.DataFrame, state: State, emit: Emit) -> None:
        if name != NAMES:
            self.process(batch, state, emit)
        elif batch.height:
            rows = state[NAMES].rows(batch)
            state[NAMES].maximum("seen", rows, times(batch, "time"))

    def on_punctuation(self, time: dt.datetime, state: State, emit: Emit) -> None:
        # The rows of a window have the time of its end, so they are all here when the end has come.
        clock = as_us(time) + 1
        ready = released(state[WAITING], clock)
        if ready is None:
            return
        leading = state[LEADING].frame() if len(state[LEADING]) else None
        for window in self._strongest(ready, state[NAMES]).partition_by("end", maintain_order=True):
            ranked = window.with_columns(rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
            emit(_compared(ranked, leading).select(*self.returns))
            leading = ranked
        assert leading is not None  # what is ready has at least one window
        state[LEADING].drop(np.ones(len(state[LEADING]), np.bool_))
        state[LEADING].append(leading)
        forget_before(state[NAMES], clock - self.window_us)

    def _strongest(self, counts: pl.DataFrame, names: ps.KeyedTable) -> pl.DataFrame:
        """The first k of each window, by name."""
        rows = leading_of(counts, self.k)
        columns = [f"step_{i}" for i in range(self.steps)]
        known = texts_of(names, np.unique(rows.select(columns).to_numpy()))
        for column in columns:
            rows = rows.join(known.rename({"step": column, "text": f"{column}.text"}), on=column, how="left")
        pattern = pl.concat_str([f"{column}.text" for column in columns], separator=SEPARATOR)
        named = in_order(
            rows.select("end", "visits", pattern.alias("pattern")),
            "end",
            "visits",
            "pattern",
            descending=["visits"],
        )
        return named.group_by("end", maintain_order=True).head(self.k)


def leading_of(counts: pl.DataFrame, k: int) -> pl.DataFrame:
    """The rows of each window that are at least as frequent as its number k."""
    weakest = pl.col("visits").top_k(k).min().over("end")
    return counts.filter(pl.col("visits") >= weakest)


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
