"""Epochs: run twice they change nothing; stopped and started again they go on; killed they lose nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import testing
from tests.spark.killing import killed_and_continued
from tests.spark.topologies import Totals, make_orders, totals_topology

pytestmark = pytest.mark.spark
APP = Path(__file__).with_name("killed_app.py")


def delta(path: Path) -> pl.DataFrame:
    return pl.read_delta(str(path))


def test_an_epoch_that_is_run_again_changes_nothing(spark_run: Any, same_rows: Any, tmp_path: Path) -> None:
    top = totals_topology(
        ps.Delta(str(tmp_path / "delta")), ps.Parquet(str(tmp_path / "parquet")), rows=5_000
    )
    with spark_run.start(top) as handle:
        handle.wait()
        last = handle.history()[-1].epoch
    before = delta(tmp_path / "delta"), ps.Parquet(str(tmp_path / "parquet")).read()
    commits = spark_run.directory / "checkpoint" / "commits"
    for name in (str(last), f".{last}.crc"):  # what a driver that died before its last commit leaves
        (commits / name).unlink(missing_ok=True)
    with spark_run.start(top) as handle:
        handle.wait()
        assert handle.history()[-1].epoch == last
    same_rows(delta(tmp_path / "delta"), before[0])
    same_rows(ps.Parquet(str(tmp_path / "parquet")).read(), before[1])
    same_rows(before[0], testing.run(top)["delta"])


def test_a_stopped_run_goes_on_where_it_stopped(spark_run: Any, same_rows: Any) -> None:
    top = totals_topology(ps.Collect(), rows=20_000, rows_per_epoch=2_000)
    with spark_run.start(top) as handle:
        while handle.progress() is None:
            assert not handle.poll(0.1)
    stopped_after = len(handle.history())
    assert 1 <= stopped_after < 10
    with spark_run.start(top) as handle:
        handle.wait()
        assert [p.epoch for p in handle.history()] == list(range(10))
    same_rows(spark_run.collected(top)["collect"], testing.run(top)["collect"])


def test_a_run_directory_has_one_runner(spark_run: Any) -> None:
    top = totals_topology(ps.Collect(), rows=2_000)
    with spark_run.start(top), pytest.raises(ps.errors.RunDirectoryInUse) as caught:
        spark_run.start(top)
    assert caught.value.parameters["pid"] == str(os.getpid())


def test_a_directory_of_another_topology_is_refused(spark_run: Any) -> None:
    with spark_run.start(totals_topology(ps.Collect(), rows=100)) as handle:
        handle.wait()
    other = ps.Topology("other")
    other.source("a", ps.Generator(make_orders, schema={"user": str, "amount": float}, rows=1)).sink(
        "o", ps.Collect()
    )
    with pytest.raises(ps.errors.RunDirectoryMismatch):
        spark_run.start(other)


@pytest.mark.timeout(400)  # two cold starts of Spark
def test_a_topology_killed_in_the_middle_gives_the_reference_answer(tmp_path: Path, same_rows: Any) -> None:
    killed_and_continued(APP, tmp_path)
    expected = testing.run(killed_topology(tmp_path))
    same_rows(delta(tmp_path / "table"), expected["delta"])


def killed_topology(folder: Path) -> ps.Topology:
    return totals_topology(ps.Delta(str(folder / "table")), rows=24_000, rows_per_epoch=2_000)


def test_state_survives_a_reload_of_every_slice(spark_run: Any, same_rows: Any) -> None:
    """Workers that remember nothing read the same state from the log as those that do."""
    top = totals_topology(ps.Collect(), rows=6_000, rows_per_epoch=2_000)
    got = spark_run.through(top, spark={"spark.python.worker.reuse": "false"})
    same_rows(got["collect"], testing.run(top)["collect"])
    assert Totals.__doc__
