"""What the benchmarks run: generated events, and count-and-sum per key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numba import njit

import penstock as ps
from penstock.operators.operator import Emit

SCHEMA = {"key": int, "value": int}
_TOLD_AT_ONCE = 50


@njit(cache=True, nogil=True)
def _events(first: int, keys: Any, values: Any, distinct: int) -> None:
    """Events by number, spread over the keys like random draws, but the same at every call."""
    for i in range(len(keys)):
        x = np.uint64(first + i)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
        keys[i] = np.int64(x % np.uint64(distinct))
        values[i] = np.int64(x >> np.uint64(54))


def events(first: int, count: int, distinct: int) -> pl.DataFrame:
    """Events number ``first`` and following."""
    keys, values = np.empty(count, np.int64), np.empty(count, np.int64)
    _events(first, keys, values, distinct)
    return pl.DataFrame({"key": keys, "value": values})


class CountAndSum(ps.Operator):
    """Counts the events of each key and sums their values; emits the totals that changed."""

    returns = {"key": int, "events": int, "total": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"key": int}, values={"events": int, "total": int})

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Emit) -> None:
        rows = state.rows(batch)
        state.count("events", rows)
        state.add("total", rows, batch["value"])
        emit(state.frame(state.changed()))


def counted(
    directory: Path, *, distinct: int, rows: int, rows_per_epoch: int, parallelism: int = 120
) -> ps.Topology:
    """Generator → count and sum per key → Delta."""
    top = ps.Topology("keyed")
    source = ps.Generator(lambda first, count: events(first, count, distinct), schema=SCHEMA, rows=rows)
    stream = top.source("events", source, rows_per_epoch=rows_per_epoch)
    totals = stream.key_by("key").process("totals", CountAndSum(), parallelism=parallelism)
    totals.sink("table", ps.Delta(str(directory / "totals")))
    return top


def run_through(topology: ps.Topology, directory: Path, **options: Any) -> list[tuple[int, float]]:
    """Run to the end; the events and seconds of each epoch, as Spark measured them."""
    os.sync()  # an input of gigabytes that was just made would be written to the disk meanwhile
    spans: dict[int, float] = {}
    with ps.start(topology, directory=directory / "run", until="finished", **options) as handle:
        ended = False
        while not ended:
            ended = handle.poll(0.2)
            last = handle.progress()
            # Spark keeps a hundred, and takes long to tell them: not more often than it must.
            if ended or (last is not None and last.epoch >= max(spans, default=0) + _TOLD_AT_ONCE):
                for progress in handle.query.recentProgress:
                    spans[progress["batchId"]] = progress["durationMs"]["triggerExecution"] / 1000
        counts = {progress.epoch: progress.events for progress in handle.history()}
    return [(counts.get(epoch, 0), seconds) for epoch, seconds in sorted(spans.items())]


def check_totals(directory: Path, rows: int) -> None:
    """Raise unless every event was counted exactly once."""
    table = pl.read_delta(str(directory / "totals"))
    counted_rows = int(table.group_by("key").agg(pl.col("events").max())["events"].sum())
    if counted_rows != rows:
        raise AssertionError(f"{counted_rows:,} events were counted of {rows:,}")


def rate(epochs: list[tuple[int, float]], *, warm_up: int) -> float:
    """Events per second after the first epochs: all events over all time."""
    full = [(count, seconds) for count, seconds in epochs[warm_up:] if count]
    return sum(count for count, _ in full) / sum(seconds for _, seconds in full)
