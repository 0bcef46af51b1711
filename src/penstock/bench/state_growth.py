"""Epochs that touch 50,000 random keys, with 10 million keys held and with 100,000."""

from __future__ import annotations

import statistics
from pathlib import Path

import polars as pl

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import SCHEMA, CountAndSum, events

TOUCHED = 50_000
LOADED_AT_ONCE = 2_000_000
EPOCHS = 30
WARM_UP = 8


def run(settings: Settings) -> dict[str, float]:
    """The median epoch of both, in one session, and their ratio."""
    small = _epoch_seconds(settings.directory / "small", held=100_000)
    large = _epoch_seconds(settings.directory / "large", held=10_000_000)
    return {"epoch_s_100k": small, "epoch_s_10m": large, "ratio_10m_to_100k": large / small}


def _epoch_seconds(directory: Path, *, held: int) -> float:
    """The median epoch after every key was loaded once; the rate is changed while it runs."""
    with ps.start(_topology(directory, held, LOADED_AT_ONCE), directory=directory / "run") as handle:
        while not (progress := handle.progress()) or progress.total_events < held:
            handle.poll(0.2)
        first = handle.change(_topology(directory, held, TOUCHED)).first_epoch()
        spans: dict[int, float] = {}
        while len(spans) < EPOCHS:
            handle.poll(0.5)
            for told in handle.query.recentProgress:
                if told["batchId"] >= first:
                    spans[told["batchId"]] = told["durationMs"]["triggerExecution"] / 1000
    return statistics.median([seconds for _, seconds in sorted(spans.items())][WARM_UP:EPOCHS])


def _topology(directory: Path, held: int, rows_per_epoch: int) -> ps.Topology:
    def make(first: int, count: int) -> pl.DataFrame:
        if first >= held:
            return events(first, count, held)
        keys = pl.int_range(first, first + count, eager=True)
        return pl.DataFrame({"key": keys % held, "value": keys % 1024})

    top = ps.Topology("state-growth")
    stream = top.source("events", ps.Generator(make, schema=SCHEMA), rows_per_epoch=rows_per_epoch)
    totals = stream.key_by("key").process("totals", CountAndSum())
    totals.sink("table", ps.Delta(str(directory / "totals")))
    return top
