"""A small topology that makes Spark load, compile and start all that a run needs."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from penstock.spark.options import RunOptions
from penstock.topology.stream import Topology


def warm_up(options: RunOptions) -> None:
    """Open the session and run a few epochs in a place that is gone afterwards."""
    from penstock.spark.runner import start

    with tempfile.TemporaryDirectory(prefix="penstock-warm-") as folder:
        place = Path(folder)
        here = replace(options, directory=place / "run", until="finished", every=None, take_over=False)
        with start(small_topology(place), here) as handle:
            handle.wait()


def small_topology(place: Path) -> Topology:
    """A source, a keyed node with state, a table."""
    import polars as pl

    from penstock.connect.delta import Delta
    from penstock.connect.generator import Generator

    def events(first: int, count: int) -> pl.DataFrame:
        number = pl.int_range(first, first + count, eager=True)
        return pl.DataFrame({"key": number % 100, "time": number.cast(pl.Datetime("us"))})

    top = Topology("warm-up")
    source = Generator(events, schema={"key": int, "time": "timestamp"}, rows=5_000)
    stream = top.source("events", source, rows_per_epoch=1_000)
    stream.dedupe("first", "key", within="1ms", parallelism=4).sink("table", Delta(str(place / "out")))
    return top
