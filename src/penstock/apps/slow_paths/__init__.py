"""Slow paths: which servers are hard to reach because of the network, and which are only busy.

The example of Hwang et al.: reports of slow pings are joined with load readings of the servers that were
pinged, by server and time, and told apart by them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps
from penstock.apps.slow_paths.generated import LOADS, PINGS, READINGS_PER_S, START, Servers, check
from penstock.apps.slow_paths.verdicts import Verdicts
from penstock.connect.durations import microseconds
from penstock.connect.source import Source
from penstock.control.live_table import LiveTable
from penstock.errors import BadArgument

LIVE = LiveTable(
    title="paths with slow pings, by what made them slow",
    sink="paths",
    key=("source", "target"),
    columns=("source", "target", "network", "busy", "unknown", "worst_ms"),
    order_by="network",
    shares=("network",),
)


def topology(
    pings: Path | str | None = None,
    loads: Path | str | None = None,
    *,
    directory: Path | str = "out/slow-paths",
    slow_ms: float = 1000.0,
    busy_load: float = 0.8,
    within: str = "1s",
    lateness: str = "10s",
    latencies: Path | None = None,
    servers: int = 12,
    seconds: int = 600,
    speed: float | None = 10.0,
    rows_per_epoch: int | None = None,
) -> ps.Topology:
    """CSV files of pings and loads, or made-up servers, to verdicts on slow pings and totals per path.

    A ping is slow from ``slow_ms`` on, or if it has no answer; its target is busy if a reading ``within``
    that time of it was ``busy_load`` or more. ``latencies`` is a matrix of usual round trips for the made-up
    servers; there are ``servers`` of them, for ``seconds``, which pass ``speed`` times as fast as real ones
    (None: as fast as can be).
    """
    if (pings is None) != (loads is None):
        got = "only one path"
        raise BadArgument(
            where="slow-paths", what="the input", got=got, allowed="pings and loads, or neither"
        )
    top = ps.Topology("slow-paths")
    sources: tuple[Source, Source]
    if pings is None or loads is None:
        matrix = None if latencies is None else str(latencies.absolute())
        sources = _made_up(Servers(servers, matrix), seconds, speed)
    else:
        sources = (_files(pings, PINGS, lateness), _files(loads, LOADS, lateness))
    reports = top.source("pings", sources[0], rows_per_epoch=rows_per_epoch)
    readings = top.source("loads", sources[1], rows_per_epoch=rows_per_epoch)
    is_slow = pl.col("rtt_ms").is_null() | (pl.col("rtt_ms") >= slow_ms)
    targets = readings.map("targets", _as_target)
    pairs = reports.filter("slow", is_slow).join("near", targets, on="target", within=within, how="left")
    for output, name in (("late", "late-pings"), ("late-other", "late-loads")):
        pairs.output(output).sink(name, ps.Delta(f"{directory}/{name}"))
    within_us = microseconds(within, where="slow-paths", what="within")
    verdicts = pairs.key_by("source", "target").process("verdicts", Verdicts(within_us, busy_load))
    verdicts.sink("slow-pings", ps.Delta(f"{directory}/slow-pings"))
    verdicts.output("paths").sink("paths", ps.Delta(f"{directory}/paths"))
    return top


def _as_target(readings: pl.DataFrame) -> pl.DataFrame:
    return readings.rename({"server": "target"})


def _files(path: Path | str, columns: dict[str, Any], lateness: str) -> ps.Files:
    return ps.Files(path, format="csv", schema=columns, time="time", lateness=lateness, ends="drained")


def _made_up(servers: Servers, seconds: int, speed: float | None) -> tuple[ps.Generator, ps.Generator]:
    if servers.count < 2 or seconds < 1 or (speed is not None and speed <= 0):
        got = f"{servers.count} servers for {seconds} seconds at speed {speed}"
        allowed = "at least 2 servers and 1 second, a speed above 0"
        raise BadArgument(where="slow-paths", what="the made-up servers", got=got, allowed=allowed)
    check(servers)
    kinds = (
        (servers.pings, PINGS, servers.pings_per_s),
        (servers.loads, LOADS, servers.count * READINGS_PER_S),
    )
    made = [
        ps.Generator(
            fn,
            schema=columns,
            rows=per_s * seconds,
            rate=None if speed is None else per_s * speed,
            time="time",
            time_of=_time_of(per_s),
        )
        for fn, columns, per_s in kinds
    ]
    return made[0], made[1]


def _time_of(per_s: int) -> Callable[[int], dt.datetime]:
    return lambda n: START + dt.timedelta(microseconds=n * 1_000_000 // per_s)


__all__ = ["LIVE", "Servers", "topology"]
