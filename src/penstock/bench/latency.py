"""From the creation of an event to its committed result, at 100,000 events/s through one keyed node."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import SCHEMA, CountAndSum, events
from penstock.control.progress import Progress

RATE = 100_000
SECONDS = 40
WARM_UP_S = 20


def run(settings: Settings) -> dict[str, float]:
    """Each event is due at a known moment; its result is there when its epoch has been committed."""
    top = ps.Topology("latency")
    source = ps.Generator(lambda first, count: events(first, count, 100_000), schema=SCHEMA, rate=RATE)
    totals = top.source("events", source).key_by("key").process("totals", CountAndSum(), parallelism=4)
    totals.sink("table", ps.Parquet(str(settings.directory / "totals")))
    with ps.start(top, directory=settings.directory / "run", partitions=1) as handle:
        while not handle.progress():
            handle.poll(0.2)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            handle.poll(0.5)
        history, began_ns = handle.history(), handle.offset()["sources"]["events"]["began_ns"]
    first = history[0].at_ns + WARM_UP_S * 10**9
    waits = np.concatenate([_waits_ms(progress, began_ns) for progress in history if progress.at_ns > first])
    return {"p50_ms": float(np.percentile(waits, 50)), "p99_ms": float(np.percentile(waits, 99))}


def _waits_ms(progress: Progress, began_ns: int) -> Any:
    """How long each event of an epoch waited for its result."""
    numbers = np.arange(progress.total_events - progress.events, progress.total_events)
    return (progress.at_ns - (began_ns + numbers * (10**9 / RATE))) / 1e6
