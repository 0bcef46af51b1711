"""Versions: a change takes effect at one exact epoch of a running topology, and replay honours it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.control.changing import change_version
from penstock.control.run_directory import RunDirectory
from penstock.plan import plan
from tests.spark.topologies import ORDERS, Totals, make_orders, totals_topology

pytestmark = pytest.mark.spark


class Stamped(Totals):
    """Totals that say which logic made them."""

    returns = {"user": str, "orders": int, "total": float, "logic": int}

    def __init__(self, logic: int) -> None:
        self.logic = logic

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        made: list[pl.DataFrame] = []
        super().process(batch, state, made.append)
        emit(made[0].with_columns(logic=pl.lit(self.logic, pl.Int64)))


def stamped(logic: int, *, rows: int = 24_000, extra: bool = False) -> ps.Topology:
    top = ps.Topology("stamped")
    orders = top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=rows), rows_per_epoch=1_000)
    orders.key_by("user").process("totals", Stamped(logic)).sink("out", ps.Collect())
    if extra:
        orders.to_one().process("all", Totals()).sink("more", ps.Collect())
    return top


def wait_for_epoch(handle: Any, epoch: int) -> None:
    while (progress := handle.progress()) is None or progress.epoch < epoch:
        assert not handle.poll(0.05), "the run ended early"


def test_a_change_of_logic_has_an_exact_first_epoch_and_loses_nothing(spark_run: Any) -> None:
    with spark_run.start(stamped(1)) as handle:
        wait_for_epoch(handle, 2)
        change = handle.change(stamped(2))
        first = change.first_epoch()
        assert change.plan.swapped == (("totals", "logic or parameters"),)
        handle.wait()
        versions = {p.epoch: p.version for p in handle.history()}
    assert 2 < first < 24
    assert all(version == (1 if epoch < first else 2) for epoch, version in versions.items())
    out = pl.concat([frame.with_columns(epoch=pl.lit(epoch)) for epoch, frame in epochs_of(spark_run, "out")])
    logic = dict(out.group_by("epoch").agg(pl.col("logic").unique()).iter_rows())
    assert all(seen == ([1] if epoch < first else [2]) for epoch, seen in logic.items())
    assert out.group_by("user").agg(pl.col("orders").max())["orders"].sum() == 24_000


def epochs_of(spark_run: Any, sink: str) -> list[tuple[int, pl.DataFrame]]:
    files = sorted((spark_run.directory / "collect" / sink).glob("*.arrow"))
    return [(int(file.stem), pl.read_ipc(file.read_bytes())) for file in files]


def test_nodes_are_added_and_removed_while_it_runs(spark_run: Any) -> None:
    with spark_run.start(stamped(1)) as handle:
        wait_for_epoch(handle, 1)
        added = handle.change(stamped(1, extra=True)).first_epoch()
        wait_for_epoch(handle, added + 3)
        removed = handle.change(stamped(1)).first_epoch()
        handle.wait()
    totals = spark_run.collected(stamped(1, extra=True))
    assert totals["out"].group_by("user").agg(pl.col("orders").max())["orders"].sum() == 24_000
    counted = totals["more"].group_by("user").agg(pl.col("orders").max())["orders"].sum()
    assert counted == (removed - added) * 1_000


def test_sources_are_added_and_removed_while_it_runs(spark_run: Any) -> None:
    def shop(*, second: bool) -> ps.Topology:
        top = ps.Topology("shop")
        made = ps.Generator(make_orders, schema=ORDERS, rows=24_000)
        orders = top.source("orders", made, rows_per_epoch=1_000)
        if second:
            few = ps.Generator(make_orders, schema=ORDERS, rows=24_000)
            orders = orders.union("both", top.source("returns", few, rows_per_epoch=500))
        orders.key_by("user").process("totals", Totals()).sink("out", ps.Collect())
        return top

    with spark_run.start(shop(second=False)) as handle:
        wait_for_epoch(handle, 1)
        added = handle.change(shop(second=True)).first_epoch()
        wait_for_epoch(handle, added + 3)
        removed = handle.change(shop(second=False)).first_epoch()
        handle.wait()
        events = {p.epoch: p.events for p in handle.history()}
    assert all(count == (1_500 if added <= epoch < removed else 1_000) for epoch, count in events.items())
    counted = spark_run.collected(shop(second=True))["out"].group_by("user").agg(pl.col("orders").max())
    assert counted["orders"].sum() == 24_000 + 500 * (removed - added)


def test_a_replayed_epoch_runs_the_logic_it_ran_before(spark_run: Any) -> None:
    with spark_run.start(stamped(1, rows=4_000)) as handle:
        handle.wait()
        last = handle.history()[-1].epoch
    before = spark_run.collected(stamped(1))["out"]
    commits = spark_run.directory / "checkpoint" / "commits"
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    collected = spark_run.directory / "collect" / "out"
    newest = max(collected.glob("*.arrow"))
    newest.unlink()  # so that the replay has to make it again
    with spark_run.start(stamped(2, rows=4_000)) as handle:
        handle.wait()
        replayed = [p for p in handle.history() if p.epoch == last]
    assert replayed[-1].version == 1
    after = spark_run.collected(stamped(1))["out"]
    assert after.sort("user", "orders").equals(before.sort("user", "orders"))


def test_a_change_that_the_fabric_cannot_take_is_refused_with_the_reason(spark_run: Any) -> None:
    deeper = ps.Topology("stamped")
    orders = deeper.source(
        "orders", ps.Generator(make_orders, schema=ORDERS, rows=24_000), rows_per_epoch=1_000
    )
    totals = orders.key_by("user").process("totals", Stamped(1))
    again = (
        totals.map("a", lambda df: df.select("user", amount="total"))
        .key_by("user")
        .process("again", Totals())
    )
    again.sink("out", ps.Collect())
    with spark_run.start(stamped(1)) as handle, pytest.raises(ps.errors.BadChange) as caught:
        handle.change(deeper)
    assert "2 exchanges" in caught.value.parameters["reason"]


def test_spare_hops_leave_room_for_deeper_topologies(spark_run: Any) -> None:
    deeper = stamped(1)
    totals = ps.Stream(deeper, "totals")
    renamed = totals.map("renamed", lambda df: df.select("user", amount="total"))
    renamed.to_one().process("again", Totals()).sink("deep", ps.Collect())
    with spark_run.start(stamped(1), hops=2) as handle:
        wait_for_epoch(handle, 1)
        handle.change(deeper).first_epoch()
        handle.wait()
    assert spark_run.collected(deeper)["deep"].height > 0


def test_a_source_is_replaced_while_it_runs_by_files_of_the_same_names_and_by_another_kind(
    spark_run: Any, tmp_path: Path
) -> None:
    for folder, numbers in (("a", (1, 2)), ("b", (3, 4))):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / f"{number % 2}.jsonl").write_text(f'{{"n": {number}}}\n')

    def reading(source: Any) -> ps.Topology:
        top = ps.Topology("numbers")
        top.source("input", source).sink("out", ps.Collect())
        return top

    def files(folder: str) -> ps.Files:
        return ps.Files(tmp_path / folder, format="jsonl", schema={"n": int})

    made = ps.Generator(
        lambda first, count: pl.DataFrame({"n": range(first, first + count)}), schema={"n": int}, rows=3
    )
    with spark_run.start(reading(files("a")), until="stopped") as handle:
        wait_for_epoch(handle, 0)
        with pytest.raises(ps.errors.SourceUndecided):
            handle.change(reading(files("b")))
        second = handle.change(reading(files("b")), sources={"input": "anew"}).first_epoch()
        wait_for_epoch(handle, second)
        third = handle.change(reading(made), sources={"input": "anew"}).first_epoch()
        wait_for_epoch(handle, third)
    assert spark_run.collected(reading(made))["out"]["n"].to_list() == [1, 2, 3, 4, 0, 1, 2]


def test_a_handle_whose_version_was_replaced_elsewhere_changes_nothing_by_itself(spark_run: Any) -> None:
    with spark_run.start(stamped(1)) as handle:
        wait_for_epoch(handle, 1)
        change_version(RunDirectory(handle.directory), plan(stamped(2)), planned_on=1, hops=1)
        with pytest.raises(ps.errors.ChangedMeanwhile):
            handle.change(stamped(3))
        assert handle.plan(stamped(3)).swapped == (("totals", "logic or parameters"),)
        assert handle.change(stamped(3), planned_on=handle.version).version == 3
        handle.wait()
        versions = [p.version for p in handle.history()]
    assert versions == sorted(versions)
    assert versions[-1] == 3


def test_a_start_does_not_revert_a_change_that_was_made_while_it_ran(
    spark_run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with spark_run.start(stamped(1)) as handle:
        wait_for_epoch(handle, 1)
        handle.change(stamped(2)).first_epoch()
    with spark_run.start(stamped(1)) as handle:
        assert handle.version == 2
        assert handle.not_applied is not None
        assert handle.not_applied.swapped == (("totals", "logic or parameters"),)
    assert "goes on with its version 2" in caplog.text
    assert "~ totals: logic or parameters" in caplog.text
    with spark_run.start(stamped(1), apply=True) as handle:
        assert handle.version == 3
        assert handle.not_applied is None


def test_the_rate_is_changed_while_it_runs(spark_run: Any) -> None:
    with spark_run.start(totals_topology(ps.Collect(), rows=12_000, rows_per_epoch=1_000)) as handle:
        wait_for_epoch(handle, 1)
        first = handle.change(totals_topology(ps.Collect(), rows=12_000, rows_per_epoch=4_000)).first_epoch()
        handle.wait()
        events = {p.epoch: p.events for p in handle.history()}
    assert all(count == 1_000 for epoch, count in events.items() if epoch < first)
    assert events[first] > 1_000
    assert sum(events.values()) == 12_000
