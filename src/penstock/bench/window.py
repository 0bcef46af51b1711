"""Count and sum per key in 10-second windows over 100,000 keys, and the same query in Spark SQL."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through
from penstock.frames._jit import kernel

KEYS = 100_000
EPOCH_ROWS = 16_000_000
EPOCHS = 9
WARM_UP = 3
BASELINE_ROWS = 4_000_000
BASELINE_EPOCHS = 6
BASELINE_WARM_UP = 2
DISORDER_US = 1_000_000
"""An event comes up to a second after others that are later; there is one every microsecond."""
SCHEMA = {"time": "timestamp", "key": int, "value": int}


def run(settings: Settings) -> dict[str, float]:
    """Both ways in the same session, Penstock first."""
    ours = windows_per_second(settings.directory, exponent=0.0)
    theirs = _spark_sql(settings.directory)
    return {"events_per_s": ours, "spark_sql_events_per_s": theirs, "ratio_to_spark_sql": ours / theirs}


def windows_per_second(directory: Path, *, exponent: float) -> float:
    """Events per second with even keys, or with keys that are Zipf distributed with this exponent."""
    rows = EPOCH_ROWS * EPOCHS
    epochs = run_through(_topology(directory, rows, exponent), directory)
    _check(directory, rows, exponent)
    return rate(epochs, warm_up=WARM_UP)


def _topology(directory: Path, rows: int, exponent: float) -> ps.Topology:
    top = ps.Topology("window")
    make = partial(events, exponent=exponent)
    source = ps.Generator(make, schema=SCHEMA, rows=rows, time="time", time_of=lambda n: n - DISORDER_US)
    stream = top.source("events", source, rows_per_epoch=EPOCH_ROWS)
    windows = stream.aggregate(
        "windows", by="key", window=ps.tumbling("10s"), count=ps.count(), total=ps.sum("value")
    )
    windows.sink("table", ps.Delta(str(directory / "windows")))
    return top


def events(first: int, count: int, *, exponent: float) -> pl.DataFrame:
    """Events number ``first`` and following, the same at every call."""
    times, keys, values = (np.empty(count, np.int64) for _ in range(3))
    _fill(first, exponent, times, keys, values)
    return pl.DataFrame({"time": pl.Series(times).cast(pl.Datetime("us")), "key": keys, "value": values})


@kernel
def _fill(first: int, exponent: float, times: Any, keys: Any, values: Any) -> None:
    for i in range(len(keys)):
        x = np.uint64(first + i)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
        values[i] = np.int64(x & np.uint64(1023))
        times[i] = first + i - np.int64((x >> np.uint64(10)) % np.uint64(DISORDER_US))
        draw = (np.float64(x >> np.uint64(12)) + 1.0) / 2.0**52
        if exponent > 1.0:  # the inverse of the distribution, cut off at the number of keys
            keys[i] = np.int64(min(draw ** (-1.0 / (exponent - 1.0)), float(KEYS))) - 1
        else:
            keys[i] = np.int64(draw * (KEYS - 1))


def _check(directory: Path, rows: int, exponent: float) -> None:
    """Raise unless every event is in its window exactly once."""
    table = pl.read_delta(str(directory / "windows"))
    if table.select("key", "start").is_duplicated().any():
        raise AssertionError("a window was emitted twice")
    expected = np.zeros(4, np.int64)
    for first in range(0, rows, 1 << 22):
        part = events(first, min(1 << 22, rows - first), exponent=exponent)
        part = part.rename({"time": "start", "value": "total"}).with_columns(count=pl.lit(1))
        expected += _marks(part)
    found = _marks(table)
    if (found != expected).any():
        raise AssertionError(f"the windows add up to {found} instead of {expected}")


def _marks(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Sums that are different if an event is missing, doubled, or in another key's or time's window."""
    start = pl.col("start").to_physical() // 10_000_000
    marks = [
        pl.col("count"),
        pl.col("total"),
        pl.col("key") * start * pl.col("count"),
        pl.col("key") * pl.col("total"),
    ]
    found: npt.NDArray[np.int64] = rows.select(
        mark.sum().alias(str(n)) for n, mark in enumerate(marks)
    ).to_numpy()[0]
    return found


def _spark_sql(directory: Path) -> float:
    """Events per second of Spark's own windows, all in the JVM, from its own generator into files."""
    from pyspark.sql import SparkSession, functions

    spark = SparkSession.getActiveSession()
    assert spark is not None
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BASELINE_ROWS).load()
    stream = source.selectExpr(
        f"timestamp_micros(value - pmod(hash(value), {DISORDER_US})) AS time",
        f"pmod(xxhash64(value), {KEYS}) AS key",
        "value % 1024 AS value",
    )
    windows = (
        stream.withWatermark("time", f"{DISORDER_US} microseconds")
        .groupBy(functions.window("time", "10 seconds"), "key")
        .agg(functions.count("*").alias("events"), functions.sum("value").alias("total"))
    )
    query = (
        windows.writeStream.format("parquet")
        .option("path", str(directory / "baseline-out"))
        .option("checkpointLocation", str(directory / "baseline"))
        .start()
    )
    try:
        while len(query.recentProgress) < BASELINE_EPOCHS:
            query.awaitTermination(1)
        measured = query.recentProgress[BASELINE_WARM_UP:BASELINE_EPOCHS]
    finally:
        query.stop()
    seconds = sum(progress["durationMs"]["triggerExecution"] for progress in measured) / 1000
    return float(sum(progress["numInputRows"] for progress in measured) / seconds)
