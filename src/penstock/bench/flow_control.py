"""Voice messages of a radio network to notices for its controllers."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl

from penstock.apps.flow_control import topology
from penstock.apps.flow_control.events import LIMIT, RELEASE, Thresholds
from penstock.apps.flow_control.generated import MOVES, Network
from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through

EPOCH_MESSAGES = 3_000_000
EPOCHS = 7
WARM_UP = 2
USUAL = 1_000_000
"""Messages for which the application's own thresholds are made."""
SAMPLE = 10  # one controller of so many is compared


def run(settings: Settings) -> dict[str, float]:
    """Messages per second; the notices to a sample of controllers must be those that Polars finds at once."""
    network = Network(messages=EPOCH_MESSAGES * EPOCHS, seed=settings.number)
    thresholds = Thresholds(t2=50_000_000 * network.messages // USUAL)
    out = settings.directory / "out"
    top = topology(
        messages=network.messages, seed=network.seed, rate=None, rows_per_epoch=EPOCH_MESSAGES,
        t2=thresholds.t2, directory=out,
    )  # fmt: skip
    epochs = run_through(top, settings.directory)
    return {"messages_per_s": rate(epochs, warm_up=WARM_UP), "notices": _check(network, thresholds, out)}


def _check(network: Network, thresholds: Thresholds, out: Path) -> int:
    """Raise unless the sample got the notices that it deserves; gives the number of all notices."""
    found = pl.read_ndjson(sorted((out / "notices").glob("*.jsonl")))
    found = found.with_columns(pl.col("time").str.to_datetime(time_unit="us"))
    got = found.filter(pl.col("bsc") % SAMPLE == 0).select("time", "bsc", "action").sort("bsc", "time")
    expected = _expected(network, thresholds)
    if not got.height or not got.equals(expected):
        raise AssertionError(f"the sample has {got.height:,} notices, but {expected.height:,} are right")
    return found.height


def _expected(network: Network, thresholds: Thresholds) -> pl.DataFrame:
    cells = network.map(0, network.cells + MOVES).sort("time")
    parts = []
    for first in range(0, network.messages, EPOCH_MESSAGES):
        voice = network.voice(first, EPOCH_MESSAGES).sort("time")
        placed = voice.join_asof(cells, on="time", by=["lac", "cell"], check_sortedness=False)
        parts.append(placed.filter(pl.col("bsc") % SAMPLE == 0).select("time", "bsc", "bytes"))
    came = pl.concat(parts)
    window = dt.timedelta(microseconds=thresholds.window_us)
    went = came.with_columns(pl.col("time") + window, -pl.col("bytes"))
    volume = pl.concat([came, went]).group_by("bsc", "time").agg(pl.sum("bytes"))
    kpis = network.kpis(0, network.reports).filter(pl.col("bsc") % SAMPLE == 0)
    rates = kpis.group_by("bsc", "time").agg(pl.max("voice_rate"))
    moments = volume.join(rates, on=["bsc", "time"], how="full", coalesce=True).sort("bsc", "time")
    known = moments.with_columns(
        pl.col("bytes").fill_null(0).cum_sum().over("bsc"),
        pl.col("voice_rate").forward_fill().over("bsc").fill_null(0.0),
    )
    is_over = (pl.col("voice_rate") > thresholds.t1) & (pl.col("bytes") > thresholds.t2)
    turns = known.with_columns(is_over=is_over).filter(
        pl.col("is_over") != pl.col("is_over").shift().over("bsc").fill_null(value=False)
    )
    action = pl.when("is_over").then(pl.lit(LIMIT)).otherwise(pl.lit(RELEASE)).alias("action")
    return turns.select("time", "bsc", action)
