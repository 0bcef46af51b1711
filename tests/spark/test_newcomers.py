"""On a real cluster, an executor that takes a killed one's place serves slices too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.bench.workload import SCHEMA, CountAndSum, events
from penstock.control.driving import Request
from penstock.control.restarting import RestartPolicy
from penstock.control.supervisor import SupervisedRun
from penstock.spark.options import RunOptions
from penstock.testing.chaos import StandaloneCluster

pytestmark = pytest.mark.spark


def topology(folder: Path) -> ps.Topology:
    top = ps.Topology("counted")
    source = ps.Generator(lambda first, count: events(first, count, 1_000), schema=SCHEMA, rate=1_000)
    totals = top.source("events", source).key_by("key").process("totals", CountAndSum(), parallelism=4)
    totals.sink("table", ps.Delta(folder / "table"))
    return top


@pytest.mark.timeout(400)
def test_a_replaced_executor_gets_its_share_of_the_slices(tmp_path: Path) -> None:
    with StandaloneCluster(workers=2) as cluster:
        options = RunOptions(directory=tmp_path / "run", master=cluster.url, spark=cluster.settings())
        with SupervisedRun(Request(topology(tmp_path), tmp_path / "run", options, RestartPolicy())) as run:
            while epoch_of(run) < 1 or not cluster.is_whole():
                assert not run.poll(0.2)
            killed = cluster.executors()[0]
            os.kill(killed, signal.SIGKILL)
            while killed in cluster.executors() or not cluster.is_whole():
                assert not run.poll(0.2)
            moved_at = epoch_of(run)
            while epoch_of(run) < moved_at + 5:
                assert not run.poll(0.2)
            run.stop()
            run.wait()
            processed = sum(progress.events for progress in run.history())
    table = pl.read_delta(str(tmp_path / "table"))
    assert table.group_by("key").agg(pl.col("events").max())["events"].sum() == processed


def epoch_of(run: SupervisedRun) -> int:
    progress = run.progress()
    return progress.epoch if progress else -1
