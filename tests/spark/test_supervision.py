"""A run that is kept alive: its driver dies, a record kills its workers, a second runner takes over."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import testing
from penstock.connect.collect import Collect
from penstock.control.changing import change_version
from penstock.control.driving import Request
from penstock.control.incidents import read_incidents
from penstock.control.restarting import RestartPolicy
from penstock.control.run_directory import RunDirectory
from penstock.control.supervisor import SupervisedRun
from penstock.errors import Fenced, OperatorFailed, SinkUnavailable
from penstock.plan import plan
from penstock.spark.driver import Driver
from penstock.spark.options import RunOptions
from penstock.spark.outlet import OutletWriter
from tests.spark import brittle
from tests.spark.topologies import ORDERS, Totals, make_orders, totals_topology

pytestmark = pytest.mark.spark


def supervised(folder: Path, **settings: Any) -> SupervisedRun:
    options = RunOptions(directory=folder / "run", master="local[2]", until="finished")
    top = brittle.topology(folder, **settings)
    return SupervisedRun(Request(top, folder / "run", options, RestartPolicy(code_attempts=1)))


@pytest.mark.timeout(400)  # two cold starts of Spark
def test_a_killed_driver_and_a_killing_record_cost_one_record(tmp_path: Path) -> None:
    with supervised(tmp_path) as run:
        while (progress := run.progress()) is None or progress.epoch < 1:
            assert not run.poll(0.2)
        assert run.driver is not None
        os.kill(run.driver.pid, signal.SIGKILL)
        run.wait()
        said = "\n".join(run.console())
    table = pl.read_delta(str(tmp_path / "table"))
    assert table.group_by("key").agg(pl.col("rows").max())["rows"].sum() == brittle.ROWS - 1
    letters = pl.read_delta(str(tmp_path / "run" / "dead-letters"))
    assert letters.select("node", "raw", "reason").rows() == [
        ("counted", b'{"n": 4321, "key": 21}', "KilledItsWorker: SIGSEGV")
    ]
    first, second, third = read_incidents(tmp_path / "run" / "incidents.jsonl")
    assert "was ended by SIGKILL" in first.what
    assert (second.epoch, second.kind) == (brittle.POISON // 1000, "death")
    assert "starting again" in second.action
    assert (third.epoch, third.kind) == (second.epoch, "handled")
    assert third.action.endswith("dead letters of this epoch: 1")
    assert said.count("incident at epoch") == 3


def slow_totals(factor: float) -> ps.Topology:
    """Eight seconds of orders."""
    top = ps.Topology("totals")
    orders = ps.Generator(make_orders, schema=ORDERS, rows=16_000, rate=2_000)
    priced = top.source("orders", orders, rows_per_epoch=1_000).map("priced", Priced(factor))
    priced.key_by("user").process("totals", Totals()).sink("out", ps.Collect())
    return top


class Priced:
    """Orders at another price."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, df: pl.DataFrame) -> pl.DataFrame:
        return df.with_columns(amount=pl.lit(self.factor))


@pytest.mark.timeout(400)  # two cold starts of Spark
def test_a_driver_that_restarts_runs_the_changed_version(tmp_path: Path) -> None:
    options = RunOptions(directory=tmp_path / "run", master="local[2]", until="finished")
    request = Request(slow_totals(1.0), tmp_path / "run", options, RestartPolicy())
    with SupervisedRun(request) as run:
        while (progress := run.progress()) is None or progress.epoch < 1:
            assert not run.poll(0.1)
        change_version(run.run_directory, plan(slow_totals(10.0)), planned_on=1, hops=1)
        while (progress := run.progress()) is None or progress.version == 1:
            assert not run.poll(0.1)
        assert run.driver is not None
        os.kill(run.driver.pid, signal.SIGKILL)
        run.wait()
        events = {p.epoch: (p.version, p.events) for p in run.history()}
    assert [i.kind for i in read_incidents(tmp_path / "run" / "incidents.jsonl")] == ["death"]
    versions = [version for version, _ in events.values()]
    assert versions == sorted(versions)
    assert set(versions) == {1, 2}
    assert RunDirectory(tmp_path / "run").versions() == [1, 2]
    paid = sum(count * (1.0 if version == 1 else 10.0) for version, count in events.values())
    assert sum(count for _, count in events.values()) == 16_000
    last = Collect.read(tmp_path / "run", "out").group_by("user").agg(pl.col("orders", "total").max())
    assert (last["orders"].sum(), last["total"].sum()) == (16_000, paid)


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_a_killing_record_that_may_not_be_put_aside_is_named(tmp_path: Path) -> None:
    with (
        supervised(tmp_path, on_error="stop") as run,
        pytest.raises(OperatorFailed, match=r"'counted'.*KilledItsWorker: SIGSEGV") as caught,
    ):
        run.wait()
    saved = pl.read_ipc(caught.value.parameters["saved"])
    assert brittle.POISON in saved["n"]


def test_a_runner_whose_term_is_over_is_refused_at_its_next_commit(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    older, newer = directory.begin_term(), directory.begin_term()
    with pytest.raises(Fenced, match="token 2, this one has 1"):
        OutletWriter(str(tmp_path), "run", older).commit([], 0)
    OutletWriter(str(tmp_path), "run", newer).commit([], 0)


def test_a_replaced_runner_is_refused_also_when_spark_notices_first(spark_run: Any, tmp_path: Path) -> None:
    """The newer one has planned the epoch that the older one begins, by the log that both of them write."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"n": 1}\n')
    top = ps.Topology("numbers")
    numbers = ps.Files(folder, format="jsonl", schema={"n": int})
    top.source("numbers", numbers).sink("table", ps.Collect())
    with spark_run.start(top, until="stopped") as handle:
        while handle.progress() is None:
            assert not handle.poll(0.2)
        directory = RunDirectory(handle.directory)
        directory.begin_term()
        offsets = directory.checkpoint / "offsets"
        newest = max(int(path.name) for path in offsets.glob("[0-9]*"))
        (offsets / str(newest + 1)).write_bytes((offsets / str(newest)).read_bytes())
        (folder / "b.jsonl").write_text('{"n": 2}\n')
        with pytest.raises(Fenced):
            handle.wait()


def test_a_sink_in_the_wrong_place_is_told_and_can_be_mended(
    spark_run: Any, tmp_path: Path, same_rows: Any
) -> None:
    """The epoch that failed goes to the new place, and once to the sink that had it already."""
    (tmp_path / "wrong").write_text("a file where a folder should be")
    with (
        pytest.raises(SinkUnavailable) as caught,
        spark_run.start(totals_topology(ps.Collect(), ps.Parquet(tmp_path / "wrong"), rows=3_000)) as handle,
    ):
        handle.wait()
    assert caught.value.parameters["sink"] == "parquet"
    mended = totals_topology(ps.Collect(), ps.Parquet(tmp_path / "right"), rows=3_000)
    got = spark_run.through(mended)
    expected = testing.run(mended)["collect"]
    same_rows(got["collect"], expected)
    same_rows(pl.read_parquet(tmp_path / "right" / "**" / "*.parquet").select(expected.columns), expected)


def test_no_driver_takes_a_run_over_or_brings_a_topology(tmp_path: Path) -> None:
    """The start itself has taken it over: a driver must not take it from a runner that came later."""
    options = RunOptions(directory=tmp_path, take_over=True)
    run = SupervisedRun(Request(brittle.topology(tmp_path), tmp_path, options, RestartPolicy()))
    with RunDirectory(tmp_path).lock():  # of a runner that hangs
        run.adopt()
    assert run.request.topology is None
    assert not run.request.options.take_over
    assert RunDirectory(tmp_path).current() == 1


def test_a_wish_to_end_that_is_repeated_ends_nothing_else() -> None:
    """Signals come again while the first is dealt with; nothing there may wait for itself."""
    driver = Driver(Request(brittle.topology(Path()), Path(), RunOptions(), RestartPolicy()))
    before = signal.signal(signal.SIGTERM, driver.end)
    try:
        for _ in range(1_000):
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert driver._ends_within(60.0)
