"""Pairs of two streams whose rows all have one key: 40,000 rows a side and 120,000 pairs an epoch."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import polars as pl

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import run_through

SIDE_ROWS = 40_000
"""Rows of each side in an epoch, one a second."""
EPOCHS = 8
WARM_UP = 3
WITHIN_S = 1


def run(settings: Settings) -> dict[str, float]:
    """The median seconds of an epoch."""
    epochs = run_through(_topology(settings.directory), settings.directory)
    _check(settings.directory)
    full = [seconds for events, seconds in epochs if events == 2 * SIDE_ROWS]
    return {"s": statistics.median(full[WARM_UP:])}


def _topology(directory: Path) -> ps.Topology:
    top = ps.Topology("join-hot")
    sides = [
        top.source(
            name,
            ps.Generator(
                _events, schema={"time": "timestamp", "key": int, "number": int}, rows=SIDE_ROWS * EPOCHS,
                time="time", time_of=lambda n: n * 1_000_000,
            ),
            rows_per_epoch=SIDE_ROWS,
        )
        for name in ("asked", "answered")
    ]  # fmt: skip
    pairs = sides[0].join("pairs", sides[1], on="key", within=f"{WITHIN_S}s")
    pairs.sink("table", ps.Delta(str(directory / "pairs")))
    return top


def _events(first: int, count: int) -> pl.DataFrame:
    numbers = np.arange(first, first + count)
    times = pl.Series(numbers * 1_000_000).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": times, "key": np.zeros(count, np.int64), "number": numbers})


def _check(directory: Path) -> None:
    """Raise unless the pairs are all that there are, each once."""
    found = pl.read_delta(str(directory / "pairs"))
    rows = SIDE_ROWS * EPOCHS
    near = found.filter((pl.col("number") - pl.col("number_right")).abs() <= WITHIN_S)
    distinct = near.select("number", "number_right").n_unique()
    expected = (2 * WITHIN_S + 1) * rows - WITHIN_S * (WITHIN_S + 1)
    if (found.height, distinct) != (expected, expected):
        raise AssertionError(f"{found.height:,} pairs, {distinct:,} right ones, instead of {expected:,}")
