"""On a real cluster, an executor that takes a killed one's place serves slices too."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.bench.workload import SCHEMA, CountAndSum, events
from penstock.control.driving import Request
from penstock.control.restarting import RestartPolicy
from penstock.control.supervisor import SupervisedRun
from penstock.spark.options import RunOptions
from penstock.spark.places import fair_moves
from penstock.testing.chaos import StandaloneCluster
from penstock.testing.chaos.processes import python_workers

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
            before = set(cluster.executors())
            killed = min(before)
            os.kill(killed, signal.SIGKILL)
            while killed in cluster.executors() or not cluster.is_whole():
                assert not run.poll(0.2)
            let_epochs_pass(run, 10)
            (replacement,) = set(cluster.executors()) - before
            worked = seconds_for_slices(replacement)
            let_epochs_pass(run, 10)
            assert seconds_for_slices(replacement) > worked
            run.stop()
            run.wait()
            processed = sum(progress.events for progress in run.history())
    table = pl.read_delta(str(tmp_path / "table"))
    assert table.group_by("key").agg(pl.col("events").max())["events"].sum() == processed


def let_epochs_pass(run: SupervisedRun, count: int) -> None:
    first = epoch_of(run)
    while epoch_of(run) < first + count:
        assert not run.poll(0.2)


def seconds_for_slices(executor: int) -> float:
    """The processor time of an executor's workers for hops."""
    workers = [w for w in python_workers(executor) if w.environ().get("PENSTOCK_WORKERS") == "hops"]
    return sum(w.cpu_times().user for w in workers)


@given(st.lists(st.sampled_from(["a", "b", "c", "gone", ""]), min_size=1, max_size=40))
def test_shares_are_fair_and_little_is_moved(places: list[str]) -> None:
    names = ["a", "b", "c"]
    moves = fair_moves(dict(enumerate(places)), names)
    assert all(places[store] in names for store in moves)  # what nobody has is opened wherever it is free
    after = Counter(moves.get(store, name) for store, name in enumerate(places))
    most = max(after[name] for name in names)
    share = len(places) // len(names)
    for name in names:
        lacks = max(0, share - places.count(name))
        assert list(moves.values()).count(name) <= lacks
        assert after[name] >= share or most - after[name] < 2


def epoch_of(run: SupervisedRun) -> int:
    progress = run.progress()
    return progress.epoch if progress else -1
