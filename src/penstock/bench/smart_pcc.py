"""Smart policy and charging control of a million subscribers, in SAND's mix of EDRs and streaming events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from penstock.apps.smart_pcc import topology, truth
from penstock.apps.smart_pcc.generated import Network
from penstock.apps.smart_pcc.rules import Rules
from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through

SUBSCRIBERS = 1_000_000
EPOCH_ROWS = 11_000_000
EPOCHS = 12
WARM_UP = 3
SAMPLE = 1_000  # one subscriber of so many is compared with the truth
CHUNK_ROWS = 1 << 20


def run(settings: Settings) -> dict[str, float]:
    """Tuples per second of both inputs; the signals of a sample of subscribers must be the truth's."""
    network = Network(subscribers=SUBSCRIBERS, rows=EPOCH_ROWS * EPOCHS, seed=settings.number)
    out = settings.directory / "out"
    top = topology(
        subscribers=SUBSCRIBERS, rows=network.rows, seed=network.seed, rate=None,
        rows_per_epoch=EPOCH_ROWS, directory=out,
    )  # fmt: skip
    epochs = run_through(top, settings.directory)
    signals = check(network, out)
    return {"tuples_per_s": rate(epochs, warm_up=WARM_UP), "signals": signals}


def check(network: Network, out: Path) -> int:
    """Raise unless the sample has exactly the signals that it deserves; gives the number of all signals."""
    found = pl.read_ndjson(sorted((out / "signals").glob("*.jsonl")))
    found = found.with_columns(pl.col("time", "renews").str.to_datetime(time_unit="us"))
    key = ["msisdn", "plan", "quota_limit", "renews", "signal"]
    if found.n_unique(key) != found.height:
        raise AssertionError(f"of {found.height:,} signals only {found.n_unique(key):,} are different")
    edrs, events = network.counts
    deserved = pl.concat(_sample(network.edrs, edrs)), pl.concat(_sample(network.events, events))
    expected = truth.signals(*deserved, Rules())
    got = found.filter(pl.col("msisdn") % SAMPLE == 0).select(expected.columns)
    if not expected.height or not got.sort(got.columns).equals(expected.sort(got.columns)):
        raise AssertionError(f"the sample has {got.height:,} signals, the truth {expected.height:,}")
    return found.height


def _sample(make: Callable[[int, int], pl.DataFrame], count: int) -> Iterator[pl.DataFrame]:
    for first in range(0, count, CHUNK_ROWS):
        yield make(first, min(CHUNK_ROWS, count - first)).filter(pl.col("msisdn") % SAMPLE == 0)
