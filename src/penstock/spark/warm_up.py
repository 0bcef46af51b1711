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
_EPOCHS = 5
_ROWS_PER_EPOCH = 1_000


def warm_up(
    options: RunOptions, place: Path | None = None, until: Callable[[Handle], bool] | None = None
) -> None:
    """Open the session and run a few epochs in a place that is gone afterwards.

    With ``until``, which is asked now and then, run until it says that it is enough.
    """
    from penstock.spark.runner import start

    place = place or Path(tempfile.mkdtemp(prefix="penstock-warm-"))
    shutil.rmtree(place / "run", ignore_errors=True)  # of a driver that was killed
    here = replace(options, directory=place / "run", until="finished", every=None, take_over=False)
    try:
        with start(small_topology(place, epochs=None if until else _EPOCHS), here) as handle:
            while not handle.poll(_LOOK_EVERY_S):
                if until is not None and until(handle):
                    return
    finally:
        shutil.rmtree(place, ignore_errors=True)


def small_topology(place: Path, *, epochs: int | None) -> Topology:
    """A source, a keyed node with state, a table; None: without an end."""
    import polars as pl

    from penstock.connect.delta import Delta
    from penstock.connect.generator import Generator

    def events(first: int, count: int) -> pl.DataFrame:
        number = pl.int_range(first, first + count, eager=True)
        return pl.DataFrame({"key": number % 100, "time": number.cast(pl.Datetime("us"))})

    top = Topology("warm-up")
    rows = None if epochs is None else epochs * _ROWS_PER_EPOCH
    source = Generator(events, schema={"key": int, "time": "timestamp"}, rows=rows)
    stream = top.source("events", source, rows_per_epoch=_ROWS_PER_EPOCH)
    stream.dedupe("first", "key", within="1ms", parallelism=4).sink("table", Delta(str(place / "out")))
    return top
