"""Bad input costs one counted record with a reason; a user's exception has an address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import testing
from tests.spark.topologies import ORDERS, Totals, make_orders

pytestmark = pytest.mark.spark


def test_lines_that_cannot_be_parsed_go_to_the_dead_letter_table(
    spark_run: Any, tmp_path: Path, same_rows: Any
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    good = [json.dumps({"user": f"u{i % 5}", "amount": i / 2}) for i in range(200)]
    bad = ['{"user": "u1", "amount": ', '{"user": "u2", "amount": "much"}', "not json"]
    (folder / "a.jsonl").write_text(
        "\n".join([*good[:50], bad[0], *good[50:120], bad[1], *good[120:], bad[2]]) + "\n"
    )
    top = ps.Topology("letters")
    lines = top.source("lines", ps.Files(folder, format="jsonl", schema=ORDERS))
    lines.key_by("user").process("totals", Totals()).sink("out", ps.Collect())
    with spark_run.start(top, until="caught-up") as handle:
        handle.wait()
        assert sum(p.dead_letters for p in handle.history()) == 3
        letters = pl.read_delta(str(handle.directory / "dead-letters"))
    assert sorted(letters["raw"].to_list()) == sorted(line.encode() for line in bad)
    assert set(letters["node"]) == {"lines"}
    assert all(letters["reason"])
    assert all("a.jsonl" in place for place in letters["place"])
    same_rows(spark_run.collected(top)["out"], testing.run(top)["out"])


def make_large(first: int, count: int) -> pl.DataFrame:
    n = pl.int_range(first, first + count, eager=True)
    time = (n * 1_000_000).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": time, "k": n % 2, "v": pl.select((n % 2) * 2**60 + 1).to_series()})


def test_a_window_whose_sum_does_not_fit_is_a_dead_letter_and_the_others_are_right(spark_run: Any) -> None:
    top = ps.Topology("large")
    columns = {"time": "timestamp", "k": int, "v": int}
    source = ps.Generator(make_large, schema=columns, rows=100, time="time", lateness="0s")
    windows = top.source("events", source, rows_per_epoch=40).aggregate(
        "sums", by="k", window=ps.tumbling("50s"), total=ps.sum("v")
    )
    windows.sink("out", ps.Collect())
    with spark_run.start(top, until="finished") as handle:
        handle.wait()
        assert sum(p.dead_letters for p in handle.history()) == 2
        letters = pl.read_delta(str(handle.directory / "dead-letters"))
    assert spark_run.collected(top)["out"].select("k", "total").rows() == [(0, 25), (0, 25)]
    assert set(letters["node"]) == {"sums"}
    assert set(letters["reason"]) == {f"the sum of 'v' is {25 * (2**60 + 1)}, which does not fit Int64"}


def faulty(on_error: Any, *, keyed: bool) -> ps.Topology:
    top = ps.Topology("faulty")
    orders = top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=2_000), rows_per_epoch=500)
    if keyed:
        orders.key_by("user").process("odd", Fussy(), on_error=on_error).sink("out", ps.Collect())
    else:
        orders.map("odd", fussy, returns=ORDERS, on_error=on_error).sink("out", ps.Collect())
    return top


def fussy(batch: pl.DataFrame) -> pl.DataFrame:
    if (batch["amount"] == 13.25).any():
        raise ValueError("13.25 is unlucky")
    return batch


class Fussy(Totals):
    """Totals that cannot bear one amount."""

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        super().process(batch, state, lambda rows: None)
        emit(state.frame(state.changed()))
        fussy(batch)


@pytest.mark.parametrize("keyed", [False, True], ids=["map", "process"])
def test_an_exception_stops_the_topology_with_its_address_and_the_batch_until_it_is_mended(
    keyed: bool, spark_run: Any, same_rows: Any
) -> None:
    with (
        pytest.raises(ps.errors.OperatorFailed) as caught,
        spark_run.start(faulty("stop", keyed=keyed)) as handle,
    ):
        handle.wait()
    parameters = caught.value.parameters
    assert parameters["node"] == "odd"
    assert parameters["site"].startswith("test_bad_records.py:")
    assert "13.25 is unlucky" in parameters["error"]
    assert (pl.read_ipc(Path(parameters["saved"]).read_bytes())["amount"] == 13.25).any()
    mended = faulty("dead-letter", keyed=keyed)
    spark_run.through(mended)  # as the error says: the epoch that failed runs the mended code
    same_rows(spark_run.collected(mended)["out"], testing.run(mended)["out"])


@pytest.mark.parametrize("keyed", [False, True], ids=["map", "process"])
def test_failing_records_are_put_aside_one_by_one(keyed: bool, spark_run: Any, same_rows: Any) -> None:
    top = faulty("dead-letter", keyed=keyed)
    got = spark_run.through(top)["out"]
    reference = testing.ReferenceRun(top)
    reference.drain()
    same_rows(got, reference.result()["out"])
    letters = pl.read_delta(str(spark_run.directory / "dead-letters"))
    assert letters.height == reference.letters().height == (make_orders(0, 2_000)["amount"] == 13.25).sum()
    assert all(json.loads(raw)["amount"] == 13.25 for raw in letters["raw"])


def test_a_sink_that_cannot_be_written_is_named(spark_run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    top = ps.Topology("nowhere")
    orders = top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=10))
    orders.sink("table", ps.Delta(str(tmp_path / "file" / "table")))
    with pytest.raises(ps.errors.PenstockError) as caught, spark_run.start(top) as handle:
        handle.wait()
    assert "table" in str(caught.value)
