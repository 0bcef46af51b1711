"""Why a ping was slow, when all load readings that can tell are there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl

import penstock as ps
from penstock.operators.event_time import as_us
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

WAITING, PATHS = "waiting", "paths"
CAUSES = ("network", "busy", "unknown")
PATH = {"source": str, "target": str}


@dataclass(frozen=True)
class Verdicts(ps.Operator):
    """Takes slow pings with each reading near them, gives each ping once with its cause.

    ``busy``: a reading showed the target at ``busy_load`` or more; ``network``: there were readings and none
    did; ``unknown``: there were none. The output ``paths`` has the new totals of each path that changed.
    State: pings that readings can still come for, and the totals.
    """

    returns = {"time": dt.datetime, **PATH, "rtt_ms": float, "load": float, "cause": str}
    outputs: ClassVar[Mapping[str, Any]] = {
        PATHS: {**PATH, "slow": int, **dict.fromkeys(CAUSES, int), "worst_ms": float}
    }
    within_us: int
    busy_load: float

    def init_state(self) -> dict[str, Any]:
        sums = dict.fromkeys(("slow", *CAUSES), int)
        return {WAITING: TimedRows("time_left"), PATHS: ps.KeyedTable(PATH, {**sums, "worst_ms": float})}

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        state[WAITING].append(batch.select("time_left", *PATH, "rtt_ms", "load"))

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        ready = released(state[WAITING], as_us(time) - self.within_us)
        if ready is None:
            return
        ping = [*PATH, "time_left", "rtt_ms"]
        told = ready.group_by(ping, maintain_order=True).agg(pl.col("load").max())
        load = pl.col("load")
        cause = (
            pl.when(load.is_null()).then(pl.lit("unknown")).when(load >= self.busy_load).then(pl.lit("busy"))
        )
        told = told.with_columns(cause=cause.otherwise(pl.lit("network")))
        emit(told.rename({"time_left": "time"}).select(*self.returns))
        emit.to(PATHS, _added(told, state[PATHS]))


def _added(told: pl.DataFrame, paths: ps.KeyedTable) -> pl.DataFrame:
    """The new totals of the paths that had slow pings."""
    rows = paths.rows(told.select(*PATH))
    paths.count("slow", rows)
    for cause in CAUSES:
        paths.add(cause, rows, (told["cause"] == cause).cast(pl.Int64))
    paths.maximum("worst_ms", rows, told["rtt_ms"].fill_null(0.0))
    return paths.frame(paths.changed())
