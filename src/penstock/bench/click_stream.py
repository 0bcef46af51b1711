"""Lines of an access log per second: raw text files to the top of the patterns, through Spark."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl

from penstock.apps.click_stream import Site, topology
from penstock.apps.click_stream.generated import PAGES
from penstock.bench.captures import seconds_per_epoch
from penstock.bench.harness import Settings

LINES = 2_500_000
FILES = 5
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
    top = topology(logs, directory=out, bytes_per_epoch=size, slide="5m", top=TOP, lateness="5s")
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
    parts = []
    for number in range(FILES):
        steps = site.steps(number * LINES, LINES)
        kept = steps.filter(pl.col("page") < len(PAGES), pl.col("status") < 400)
        parts.append(kept.select("time", user="visitor", path=pl.col("page").cast(pl.Int16)))
    visits = pl.concat(parts).sort("user", "time", maintain_order=True)
    is_first = (pl.col("time") - pl.col("time").shift().over("user") > AWAY).fill_null(value=True)
    visits = visits.with_columns(session=is_first.cum_sum())
    visits = visits.filter(
        pl.col("path").ne_missing(pl.col("path").shift())
        | (pl.col("session") != pl.col("session").shift()).fill_null(value=True)
    )
    pages = [pl.col("path").shift(back).over("session").alias(f"{back}") for back in (2, 1, 0)]
    found = visits.select("time", *pages).filter(pl.col("time") >= end - WINDOW, pl.col("time") < end)
    counts = found.drop_nulls().group_by("2", "1", "0").agg(visits=pl.len().cast(pl.Int64))
    names = [pl.Series(PAGES).gather(counts[f"{back}"]).alias(f"{back}") for back in (2, 1, 0)]
    pattern = pl.DataFrame(names).select(pattern=pl.concat_str(pl.all(), separator=" > "))
    counts = pattern.hstack(counts.select("visits"))
    return counts.sort("visits", "pattern", descending=[True, False]).head(TOP)
