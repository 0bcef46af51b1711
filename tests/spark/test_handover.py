"""Payloads that frames refer to: written once, read by many, gone when their epoch is committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import testing
from penstock.errors import RunDirectoryBroken
from penstock.spark.handover import BY_REFERENCE_BYTES, clear, lay_down, pick_up


def test_what_was_laid_down_is_picked_up_by_everyone(tmp_path: Path) -> None:
    first, second = lay_down(tmp_path, 7, b"one"), lay_down(tmp_path, 7, b"two")
    assert [pick_up(tmp_path, reference).to_pybytes() for reference in (second, first, first)] == [
        b"two",
        b"one",
        b"one",
    ]


def test_only_committed_epochs_are_cleared(tmp_path: Path) -> None:
    references = {epoch: lay_down(tmp_path, epoch, b"payload") for epoch in (8, 9, 10, 11)}
    clear(tmp_path, up_to=9)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["10", "11"]
    assert pick_up(tmp_path, references[10]).to_pybytes() == b"payload"


def test_a_missing_payload_is_named_with_the_way_out(tmp_path: Path) -> None:
    reference = lay_down(tmp_path, 3, b"payload")
    clear(tmp_path, up_to=3)
    with pytest.raises(RunDirectoryBroken, match=r"3/.* missing; all workers must see the run directory"):
        pick_up(tmp_path, reference)


def test_clearing_before_anything_was_laid_down_is_nothing(tmp_path: Path) -> None:
    clear(tmp_path / "handover", up_to=100)


class Sums(ps.Operator):
    """What this slice has got, so that a payload read wrongly shows."""

    returns = {"rows": int, "total": int, "letters": int}

    def init_state(self) -> dict[str, int]:
        return {"rows": 0, "total": 0, "letters": 0}

    def process(self, batch: pl.DataFrame, state: dict[str, int], emit: Any) -> None:
        state["rows"] += batch.height
        state["total"] += int(batch["n"].sum())
        state["letters"] += int(batch["text"].str.len_bytes().sum())
        emit(pl.DataFrame([state]))


def make(first: int, count: int) -> pl.DataFrame:
    n = pl.int_range(first, first + count, eager=True)
    return pl.DataFrame({"n": n, "text": n.cast(str) + "·" * 40})


@pytest.mark.spark
def test_large_broadcasts_on_spark_give_what_the_reference_engine_gives(
    spark_run: Any, same_rows: Any
) -> None:
    rows = 1_500
    assert make(0, rows // 2).estimated_size() > 2 * BY_REFERENCE_BYTES  # two splits, each large enough
    top = ps.Topology("large-broadcast")
    source = ps.Generator(make, schema={"n": int, "text": str}, rows=3 * rows)
    stream = top.source("gen", source, rows_per_epoch=rows)
    stream.broadcast().process("sums", Sums(), parallelism=6).sink("out", ps.Collect())
    same_rows(spark_run.through(top)["out"], testing.run(top)["out"])
    left = list((spark_run.directory / "handover").iterdir())  # the folder is there: references were used
    assert not left, "payloads of committed epochs are gone"


class Repeat(ps.Operator):
    """Gives on what it gets."""

    returns = {"n": int, "text": str}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(batch)


@pytest.mark.spark
def test_what_waits_for_its_sink_while_others_go_on_is_there_once(spark_run: Any, same_rows: Any) -> None:
    rows = 4_000
    top = ps.Topology("waiting")
    source = ps.Generator(make, schema={"n": int, "text": str}, rows=2 * rows)
    stream = top.source("gen", source, rows_per_epoch=rows)
    first = stream.key_by("n").process("first", Repeat(), parallelism=2)
    first.sink("early", ps.Collect())
    first.to_one().process("sums", Sums()).sink("out", ps.Collect())
    found, expected = spark_run.through(top), testing.run(top)
    for sink in ("early", "out"):
        same_rows(found[sink], expected[sink])
    left = list((spark_run.directory / "handover").iterdir())  # the folder is there: payloads were laid down
    assert not left, "payloads of committed epochs are gone"
