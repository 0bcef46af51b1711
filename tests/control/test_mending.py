"""An epoch that failed, and which mended topologies may run it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.control.making_runs import make_run
from tests.spark.topologies import ORDERS, Totals, make_orders, totals_topology

import penstock as ps
from penstock.control.adoption import adopt
from penstock.control.changes import plan_change
from penstock.control.checkpoint import next_epoch, read_offset
from penstock.control.mending import let_mended_code_run, note_failure
from penstock.control.run_directory import RunDirectory
from penstock.control.spark_files import write_checked
from penstock.errors import (
    BadChange,
    InternalError,
    OperatorFailed,
    PenstockError,
    SinkRefused,
    SinkUnavailable,
    SourceUnavailable,
)
from penstock.plan import plan
from penstock.spark.options import RunOptions
from penstock.spark.state_moves import next_version

CODE = OperatorFailed(node="n", site="a.py:1", epoch=3, error="E", saved="-", traceback="T")
REFUSED = SinkRefused(sink="table", what="404", where="w", next_step="n")
GONE = SourceUnavailable(source="orders", what="gone", where="w", next_step="n")
AWAY = SinkUnavailable(sink="table", what="away", where="w", next_step="n")


def version_after(run: RunDirectory, error: PenstockError, *sinks: Any, factor: float) -> int:
    """The version under which the begun epoch is run after a failure and a changed topology."""
    note_failure(run, error)
    mended = plan(totals_topology(*sinks, rows=100, factor=factor))
    change = plan_change(run.load(1), mended, version=2, hops=1)
    run.store(2, change.program)
    let_mended_code_run(run, change)
    return int(read_offset(run.checkpoint, 3)["version"])


@pytest.mark.parametrize(
    ("error", "sink_changes", "code_changes", "version"),
    [
        (CODE, False, True, 2),
        (CODE, True, True, 2),
        (REFUSED, True, False, 2),
        (AWAY, True, False, 2),
        (REFUSED, True, True, 1),  # another sink may have the results of the code as it was
        (GONE, False, True, 2),
        (InternalError(what="x"), True, True, 1),
    ],
)
def test_which_topologies_may_run_an_epoch_that_failed(
    tmp_path: Path, error: PenstockError, sink_changes: bool, code_changes: bool, version: int
) -> None:
    run = make_run(tmp_path / "run", ps.Parquet(tmp_path / "before"), committed=3, planned=4)
    sink = ps.Parquet(tmp_path / ("after" if sink_changes else "before"))
    assert version_after(run, error, sink, factor=2.0 if code_changes else 1.0) == version


def test_an_epoch_that_came_to_its_commit_keeps_its_version(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect(), committed=3, planned=4)
    note_failure(run, CODE)
    run.forget_failures()
    assert version_after(run, InternalError(what="x"), ps.Collect(), factor=2.0) == 1


@pytest.mark.parametrize(("planned", "committed", "epoch"), [(0, 0, 0), (3, 3, 3), (4, 3, 3)])
def test_the_next_epoch_is_the_begun_one_or_a_new_one(
    tmp_path: Path, planned: int, committed: int, epoch: int
) -> None:
    run = make_run(tmp_path / "run", ps.Collect(), committed=committed, planned=planned)
    assert next_epoch(run.checkpoint) == epoch


def test_an_epoch_is_not_run_with_a_source_that_starts_anew(tmp_path: Path) -> None:
    """Its input is an offset of the source as it was."""
    run = make_run(tmp_path / "run", ps.Collect(), committed=3, planned=4)
    note_failure(run, CODE)
    mended = plan(totals_topology(ps.Collect(), rows=100, factor=2.0))
    change = plan_change(run.load(1), mended, version=2, hops=1, sources={"orders": "anew"})
    run.store(2, change.program)
    let_mended_code_run(run, change)
    assert read_offset(run.checkpoint, 3)["version"] == 1


def deep(*, behind: bool, factor: float) -> ps.Topology:
    """Return orders → totals → table, with a routed map in front of the totals or not."""
    top = ps.Topology("totals")
    orders = top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=100))
    priced = orders.map("priced", lambda df: df.with_columns(pl.col("amount") * factor))
    if behind:
        priced = priced.shuffle().map("spread", lambda df: df, parallelism=2)
    priced.key_by("user").process("totals", Totals()).sink("table", ps.Collect())
    return top


def failing_run(tmp_path: Path, *, exports: bool) -> RunDirectory:
    """A run whose third epoch fails under version 1; with ``exports`` it was to move state to version 2."""
    run = make_run(tmp_path / "run", ps.Collect(), committed=3, planned=4)
    run.store(1, plan(deep(behind=False, factor=1.0)))
    run.write_fabric(hops=2, partitions=2)
    if exports:
        moved = plan_change(run.load(1), plan(deep(behind=True, factor=1.0)), version=2, hops=2)
        assert moved.moved == (("totals", 1, 2),)
        run.store(2, moved.program)
        run.make_current(2)
        offset = {**read_offset(run.checkpoint, 3), "exports": 2}
        write_checked(run.checkpoint / "offsets" / "3", f"v1\n{{}}\n{json.dumps(offset)}".encode())
    note_failure(run, CODE)
    return run


def test_a_change_that_moves_state_is_refused_before_anything_is_written_while_an_epoch_fails(
    tmp_path: Path,
) -> None:
    run = failing_run(tmp_path, exports=False)
    with pytest.raises(BadChange) as refused:
        adopt(run, plan(deep(behind=True, factor=2.0)), RunOptions())
    assert "'totals'" in refused.value.parameters["reason"]
    assert (run.current(), run.versions()) == (1, [1])
    mended = adopt(run, plan(deep(behind=False, factor=2.0)), RunOptions()).plan
    let_mended_code_run(run, mended)
    assert read_offset(run.checkpoint, 3)["version"] == mended.version == 2


def test_an_epoch_that_fails_while_it_exports_is_mended_by_the_topology_as_it_was(tmp_path: Path) -> None:
    run = failing_run(tmp_path, exports=True)
    with pytest.raises(BadChange):
        adopt(run, plan(deep(behind=True, factor=2.0)), RunOptions())
    mended = adopt(run, plan(deep(behind=False, factor=2.0)), RunOptions()).plan
    let_mended_code_run(run, mended)
    offset = read_offset(run.checkpoint, 3)
    assert (offset["version"], "exports" in offset) == (mended.version, False)
    assert next_version(run, offset) == (mended.version, None)


def test_a_start_that_changes_nothing_repeats_an_epoch_that_failed_while_it_exported(tmp_path: Path) -> None:
    run = failing_run(tmp_path, exports=True)
    same = adopt(run, plan(deep(behind=True, factor=1.0)), RunOptions()).plan
    let_mended_code_run(run, same)
    offset = read_offset(run.checkpoint, 3)
    assert (same.version, offset["version"], offset["exports"]) == (2, 1, 2)
