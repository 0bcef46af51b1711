"""Epochs that are foreseen are read in advance, once, and give what the reference engine gives."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import testing
from penstock.errors import StreamFailed
from tests.spark.topologies import Totals

pytestmark = pytest.mark.spark


def noting(folder: Path, *, dies_at: int | None = None) -> Any:
    """Makes orders, and notes which thread was asked for which."""

    def make(first: int, count: int) -> pl.DataFrame:
        thread = threading.current_thread().name
        (folder / f"{first}-{thread}-{os.getpid()}-{threading.get_native_id()}").touch()
        if dies_at is not None and first <= dies_at < first + count and thread == "read-ahead":
            os.kill(os.getpid(), 9)
        n = pl.int_range(first, first + count, eager=True)
        return pl.DataFrame({"user": (n % 7).cast(pl.String), "amount": n * 0.5})

    return make


def orders(make: Any, *, rows: int, rows_per_epoch: int) -> ps.Topology:
    top = ps.Topology("orders")
    source = ps.Generator(make, schema={"user": str, "amount": float}, rows=rows)
    stream = top.source("orders", source, rows_per_epoch=rows_per_epoch)
    stream.key_by("user").process("totals", Totals(), parallelism=4).sink("table", ps.Collect())
    return top


def tried(spark_run: Any, top: ps.Topology) -> pl.DataFrame | None:
    """What the run gives; None if a worker of it has died."""
    try:
        return spark_run.through(top)["table"]
    except StreamFailed:
        return None


def threads(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in folder.iterdir():
        first, thread = path.name.rsplit("-", 2)[0].split("-", 1)
        found.setdefault(first, []).append(thread)
    return found


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="rooms are for Linux only")
def test_a_foreseen_epoch_is_read_in_advance_and_only_once(
    spark_run: Any, same_rows: Any, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    top = orders(noting(tmp_path / "notes"), rows=4_000_000, rows_per_epoch=500_000)
    got = spark_run.through(top)["table"]
    asked = threads(tmp_path / "notes")
    assert sum(names == ["read-ahead"] for names in asked.values()) >= 3
    again = [names for names in asked.values() if len(names) > 1]
    assert len(again) <= len(asked) // 2  # a piece that was not finished in time is read again
    (tmp_path / "expected").mkdir()
    expected = testing.run(orders(noting(tmp_path / "expected"), rows=4_000_000, rows_per_epoch=500_000))
    last = pl.col("total").max()
    same_rows(got.group_by("user").agg(last), expected["table"].group_by("user").agg(last))


def test_a_record_that_kills_only_who_reads_in_advance_costs_nothing(spark_run: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    top = orders(noting(tmp_path / "notes", dies_at=2_500_000), rows=4_000_000, rows_per_epoch=500_000)
    failures = 0
    while (got := tried(spark_run, top)) is None:  # who was killed may have been at work on the epoch before
        failures += 1
        assert failures <= 2
    counts = got.group_by("user").agg(pl.col("orders").max())
    assert counts["orders"].sum() == 4_000_000
