"""Pairs of two streams of a million subscribers that lie at most 15 minutes apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through
from penstock.frames._jit import kernel

SUBSCRIBERS = 1_000_000
SIDE_ROWS = 4_000_000
"""Events of each side in an epoch."""
EPOCHS = 8
WARM_UP = 3
WITHIN_US = 15 * 60 * 1_000_000
EVENT_US = 3_600
"""Time between two events of a side: every fourth subscriber has one in 15 minutes."""
_PARTS = 8
SCHEMA = {"time": "timestamp", "subscriber": int}


def run(settings: Settings) -> dict[str, float]:
    """Events of both sides per second; each pair is written."""
    epochs = run_through(_topology(settings.directory), settings.directory)
    _check(settings.directory)
    return {"events_per_s": rate(epochs, warm_up=WARM_UP)}


def _topology(directory: Path) -> ps.Topology:
    top = ps.Topology("join")
    sides = [
        top.source(
            name,
            ps.Generator(
                partial(events, seed=seed, value=value), schema={**SCHEMA, value: int},
                rows=SIDE_ROWS * EPOCHS, time="time", time_of=lambda n: n * EVENT_US,
            ),
            rows_per_epoch=SIDE_ROWS,
        )
        for seed, (name, value) in enumerate((("usage", "bytes"), ("policy", "quota")))
    ]  # fmt: skip
    pairs = sides[0].join("pairs", sides[1], on="subscriber", within="15m")
    pairs.sink("table", ps.Delta(str(directory / "pairs")))
    return top


def events(first: int, count: int, *, seed: int, value: str) -> pl.DataFrame:
    """Events number ``first`` and following of a side, the same at every call."""
    subscribers = np.empty(count, np.int64)
    _fill(first, seed, subscribers)
    times = pl.Series(np.arange(first, first + count) * EVENT_US).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": times, "subscriber": subscribers, value: np.arange(first, first + count)})


@kernel
def _fill(first: int, seed: int, subscribers: Any) -> None:
    for i in range(len(subscribers)):
        x = np.uint64(2 * (first + i) + seed)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
        subscribers[i] = np.int64(x % np.uint64(SUBSCRIBERS))


def _check(directory: Path) -> None:
    """Raise unless the pairs are all that there are, each once."""
    table = pl.scan_delta(str(directory / "pairs"))
    rows = SIDE_ROWS * EPOCHS
    pair = (pl.col("bytes") * rows + pl.col("quota")).alias("pair")  # both are numbers of events
    written = table.select(pair).collect(engine="streaming")["pair"].sort()
    distinct = written.len() - int((written.diff() == 0).sum())
    expected = sum(_pairs(part) for part in range(_PARTS))
    if (written.len(), distinct) != (expected, expected):
        raise AssertionError(f"{written.len():,} pairs, {distinct:,} different, instead of {expected:,}")


def _pairs(part: int) -> int:
    """How many pairs a part of the subscribers has; in parts, so that this takes less memory than the run."""
    rows = SIDE_ROWS * EPOCHS
    # By subscriber and then by time, as one number: those within reach are then next to each other.
    reach, span = WITHIN_US // EVENT_US, 2 * rows
    usage, policy = (np.sort(_keys(seed, part, span)) for seed in (0, 1))
    found = np.searchsorted(policy, usage + reach, "right") - np.searchsorted(policy, usage - reach, "left")
    return int(found.sum())


def _keys(seed: int, part: int, span: int) -> Any:
    """Subscriber and number of the events of a side that belong to a part."""
    found = []
    for first in range(0, SIDE_ROWS * EPOCHS, SIDE_ROWS):
        subscribers = np.empty(SIDE_ROWS, np.int64)
        _fill(first, seed, subscribers)
        mine = np.flatnonzero(subscribers % _PARTS == part)
        found.append(subscribers[mine] * span + first + mine)
    return np.concatenate(found)
