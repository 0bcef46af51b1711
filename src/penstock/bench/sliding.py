"""Windows of an hour, one a second, over three groups: 10,800 events and 32,400 windows an epoch."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import polars as pl

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import run_through

EVENTS = 10_800
"""Events of an epoch, one a second."""
EPOCHS = 8
WARM_UP = 3
GROUPS = 3
LENGTH_S = 3_600


def run(settings: Settings) -> dict[str, float]:
    """The median seconds of an epoch that takes three hours of events and closes as many windows."""
    epochs = run_through(_topology(settings.directory), settings.directory)
    _check(settings.directory)
    # An epoch closes what the one before it has brought, so the last that brings events closes windows too.
    full = [seconds for events, seconds in epochs if events == EVENTS]
    return {"s": statistics.median(full[WARM_UP:])}


def _topology(directory: Path) -> ps.Topology:
    top = ps.Topology("sliding")
    source = ps.Generator(
        _events, schema={"time": "timestamp", "group": int, "value": int}, rows=EVENTS * EPOCHS,
        time="time", time_of=lambda n: n * 1_000_000,
    )  # fmt: skip
    events = top.source("events", source, rows_per_epoch=EVENTS)
    figures = events.aggregate(
        "figures", by="group", window=ps.sliding(length="1h", every="1s"),
        number=ps.count(), total=ps.sum("value"), most=ps.max("value"),
    )  # fmt: skip
    figures.sink("table", ps.Delta(str(directory / "figures")))
    return top


def _events(first: int, count: int) -> pl.DataFrame:
    numbers = np.arange(first, first + count)
    times = pl.Series(numbers * 1_000_000).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": times, "group": numbers % GROUPS, "value": numbers})


def _check(directory: Path) -> None:
    """Raise unless every event was counted in each of its windows, and each window is there once."""
    found = pl.read_delta(str(directory / "figures"))
    numbers = np.arange(EVENTS * EPOCHS)
    expected = (len(numbers) * LENGTH_S, int(numbers.sum()) * LENGTH_S)
    got = (int(found["number"].sum()), int(found["total"].sum()))
    if got != expected or found.select("group", "start").is_duplicated().any():
        raise AssertionError(f"events and total of all windows are {got} instead of {expected}")
