"""Pings between servers joined with the load of their targets, to tell slow networks from busy servers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl

from penstock.apps.slow_paths import Servers, topology, truth
from penstock.apps.slow_paths.generated import READINGS_PER_S
from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through

SERVERS = 200
SECONDS = 350
EPOCH_PINGS = 2_000_000
WARM_UP = 2
SLOW_MS, BUSY_LOAD, WITHIN = 1000.0, 0.8, dt.timedelta(seconds=1)
CHECKED = "server-007"


def run(settings: Settings) -> dict[str, float]:
    """Pings per second; what is told of the slow pings to one server must be the truth."""
    out = settings.directory / "out"
    top = topology(
        servers=SERVERS, seconds=SECONDS, speed=None, rows_per_epoch=EPOCH_PINGS, directory=out,
        slow_ms=SLOW_MS, busy_load=BUSY_LOAD, within="1s",
    )  # fmt: skip
    epochs = run_through(top, settings.directory)
    return {"pings_per_s": rate(epochs, warm_up=WARM_UP), "slow_pings": _check(out)}


def _check(out: Path) -> int:
    servers = Servers(SERVERS)
    found = pl.read_delta(str(out / "slow-pings"))
    told = found.filter(pl.col("target") == CHECKED)
    got = sorted(told.select("time", "source", "cause").rows())
    count = servers.pings_per_s * SECONDS
    parts = (servers.pings(n, min(EPOCH_PINGS, count - n)) for n in range(0, count, EPOCH_PINGS))
    pings = pl.concat([part.filter(pl.col("target") == CHECKED) for part in parts])
    loads = servers.loads(0, SERVERS * READINGS_PER_S * SECONDS).filter(pl.col("server") == CHECKED)
    verdicts = truth.verdicts(
        pings.iter_rows(named=True), loads.to_dicts(), slow_ms=SLOW_MS, busy_load=BUSY_LOAD, within=WITHIN
    )
    expected = sorted((time, source, cause) for time, source, _, _, _, cause in verdicts)
    if not got or got != expected:
        raise AssertionError(f"{len(got):,} slow pings to {CHECKED} are told, {len(expected):,} were made")
    return found.height
