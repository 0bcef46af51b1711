"""Lines of an access log per second: raw text files to the top of the patterns, through Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl

from penstock.apps.click_stream import Site, topology
from penstock.apps.click_stream.generated import PAGES, SCRIPT
from penstock.bench.captures import seconds_per_epoch
from penstock.bench.harness import Settings

LINES = 1_500_000
FILES = 6
WARM_UP = 2
TOP = 10
AWAY = dt.timedelta(minutes=30)
WINDOW = dt.timedelta(minutes=10)


def run(settings: Settings) -> dict[str, float]:
    """Each file is an epoch; the last full window must be the one that Polars finds in the same requests."""
    logs, out = settings.directory / "logs", settings.directory / "out"
    logs.mkdir()
    site = Site()
    for number in range(FILES):
        site.write_log(logs / f"{number}.log", number * LINES, LINES)
    size = max(path.stat().st_size for path in logs.iterdir())
    top = topology(logs, directory=out, bytes_per_epoch=size, every="5m", top=TOP, lateness="5s")
    seconds = seconds_per_epoch(top, settings.directory, warm_up=WARM_UP)
    _check(out, site)
    return {"lines_per_s": LINES / seconds, "bytes_per_s": size / seconds}


def _check(out: Path, site: Site) -> None:
    counted = max(pl.read_delta(str(out / "methods"))["requests"])
    if counted != LINES * FILES:
        raise AssertionError(f"{counted:,} requests were counted of {LINES * FILES:,}")
    trends = pl.read_delta(str(out / "trends")).drop_nulls("pattern")
    end = max(trends["end"]) - WINDOW + dt.timedelta(minutes=5)  # the last windows are cut off
    got = trends.filter(pl.col("end") == end).sort("rank").select("pattern", "visits")
    if not got.equals(expected := _expected(site, end)):
        raise AssertionError(f"the window that ends at {end} is {got}, not {expected}")


def _expected(site: Site, end: dt.datetime) -> pl.DataFrame:
    """The first patterns of one window, from all requests at once."""
    needed = [pl.col("host"), pl.col("agent"), pl.col("path").cast(pl.Enum((*PAGES, SCRIPT))), pl.col("time")]
    parts = []
    for number in range(FILES):
        requests = site.requests(number * LINES, LINES)
        kept = requests.filter(pl.col("path") != SCRIPT, pl.col("status") < 400).select(needed)
        parts.append(kept.with_columns(user=pl.struct("host", "agent").hash()).drop("host", "agent"))
    visits = pl.concat(parts).sort("user", "time", maintain_order=True)
    is_first = (pl.col("time") - pl.col("time").shift().over("user") > AWAY).fill_null(value=True)
    visits = visits.with_columns(session=is_first.cum_sum())
    visits = visits.filter(
        pl.col("path").ne_missing(pl.col("path").shift())
        | (pl.col("session") != pl.col("session").shift()).fill_null(value=True)
    )
    names = [pl.col("path").shift(back).over("session").cast(pl.String) for back in (2, 1, 0)]
    found = visits.with_columns(pattern=pl.concat_str(names, separator=" > ")).drop_nulls("pattern")
    window = found.filter(pl.col("time") >= end - WINDOW, pl.col("time") < end)
    counts = window.group_by("pattern").agg(visits=pl.len().cast(pl.Int64))
    return counts.sort("visits", "pattern", descending=[True, False]).head(TOP)
