"""A small topology that makes Spark load, compile and start all that a run needs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.options import RunOptions
from penstock.topology.stream import Topology

if TYPE_CHECKING:
    from penstock.spark.runner import Handle

_LOOK_EVERY_S = 0.2


def warm_up(
    options: RunOptions, place: Path | None = None, meanwhile: Callable[[Handle], bool] | None = None
) -> None:
    """Open the session and run a few epochs in a place that is gone afterwards.

    ``meanwhile`` is called now and then; it may end the warm-up by giving False.
    """
    from penstock.spark.runner import start

    place = place or Path(tempfile.mkdtemp(prefix="penstock-warm-"))
    shutil.rmtree(place / "run", ignore_errors=True)  # of a driver that was killed
    here = replace(options, directory=place / "run", until="finished", every=None, take_over=False)
    try:
        with start(small_topology(place), here) as handle:
            while not handle.poll(_LOOK_EVERY_S):
                if meanwhile is not None and not meanwhile(handle):
                    return
    finally:
        shutil.rmtree(place, ignore_errors=True)


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
