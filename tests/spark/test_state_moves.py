"""On Spark: state follows its node to another hop, through repeats and savepoints between the two epochs."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.control.checkpoint import last_committed, read_offset
from penstock.control.restoring import restore
from penstock.control.savepoints import create
from tests.spark.test_versions import epochs_of, wait_for_epoch

pytestmark = pytest.mark.spark

ROWS = 20_000
KEYS = 7
NUMBERS = Counter(
    (key, number) for key in range(KEYS) for number in range(1, 1 + len(range(key, ROWS, KEYS)))
)
"""One number for each row of a key, by the generator's formula alone."""


def make(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"key": pl.int_range(first, first + count, eager=True) % KEYS})


def same(df: pl.DataFrame) -> pl.DataFrame:
    return df.select("key")


class Numbered(ps.Operator):
    """Gives each row its number among those of its key."""

    returns = {"key": int, "number": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"key": int}, values={"rows": int})

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        for key, part in batch.partition_by("key", as_dict=True).items():
            row = state.rows(pl.DataFrame({"key": [key[0]]}))
            before = int(state["rows"][row[0]])
            state.add("rows", row, [part.height])
            emit(part.select("key", number=before + 1 + pl.int_range(pl.len())))


def counting(*, behind: int) -> ps.Topology:
    """Return rows → so many routed maps → count → out."""
    top = ps.Topology("moves")
    stream = top.source("rows", ps.Generator(make, schema={"key": int}, rows=ROWS), rows_per_epoch=1_000)
    for number in range(behind):
        stream = stream.shuffle().map(f"spread-{number}", same, parallelism=2)
    stream.key_by("key").process("count", Numbered(), parallelism=4).sink("out", ps.Collect())
    return top


def numbers_of(run: Any) -> Counter[tuple[int, int]]:
    """Every row that the sink got, also twice if it is there twice."""
    return Counter(pl.concat([rows for _, rows in epochs_of(run, "out")]).select("key", "number").iter_rows())


def export_epoch(directory: Path) -> int:
    """Wait until an epoch that exports state is planned."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for path in sorted((directory / "checkpoint" / "offsets").glob("[0-9]*")):
            try:
                if "exports" in read_offset(directory / "checkpoint", int(path.name)):
                    return int(path.name)
            except (LookupError, ValueError):  # being written
                continue
    raise TimeoutError("no epoch exports state")


def test_a_count_keeps_its_state_when_it_moves_behind_a_new_map_and_back(spark_run: Any) -> None:
    with spark_run.start(counting(behind=0), hops=3) as handle:
        wait_for_epoch(handle, 2)
        for behind in (1, 2, 0, 1):
            change = handle.change(counting(behind=behind))
            wait_for_epoch(handle, change.first_epoch() + 1)
        handle.wait()
        hops = [progress.version for progress in handle.history()]
    assert max(hops) == 5
    assert numbers_of(spark_run) == NUMBERS


def test_the_epochs_that_export_and_import_may_both_be_repeated(spark_run: Any) -> None:
    with spark_run.start(counting(behind=0), hops=2) as handle:
        wait_for_epoch(handle, 1)
        handle.change(counting(behind=1))
        exports = export_epoch(spark_run.directory)
        wait_for_epoch(handle, exports + 1)
        handle.stop()
    for first in (exports + 1, exports):
        _forget_commits(spark_run.directory, first)
        with spark_run.start(
            counting(behind=1), until="caught-up" if first > exports else "finished"
        ) as handle:
            handle.wait()
    assert numbers_of(spark_run) == NUMBERS


def _forget_commits(directory: Path, first: int) -> None:
    """Let Spark repeat the epochs from the first one on, as after a crash before it logged their commits."""
    for path in (directory / "checkpoint" / "commits").iterdir():
        number = path.name.removeprefix(".").removesuffix(".crc")
        if number.isdecimal() and int(number) >= first:
            path.unlink()


def test_a_savepoint_between_export_and_import_holds_the_state(spark_run: Any, tmp_path: Path) -> None:
    slow = dt.timedelta(seconds=3)  # time to stop between the two epochs
    with spark_run.start(counting(behind=0), hops=2, every=slow) as handle:
        wait_for_epoch(handle, 1)
        handle.change(counting(behind=1))
        exports = export_epoch(spark_run.directory)
        handle.stop()
    assert last_committed(spark_run.directory / "checkpoint") == exports
    before = numbers_of(spark_run)
    restored = restore(create(spark_run.directory), tmp_path / "elsewhere").path
    for directory in (restored, spark_run.directory):
        run = type(spark_run)(directory)
        with run.start(counting(behind=1)) as handle:
            handle.wait()
        rest = numbers_of(run)
        assert (rest if directory == spark_run.directory else before + rest) == NUMBERS


def test_state_in_files_is_freed_when_no_epoch_can_need_it(spark_run: Any) -> None:
    with spark_run.start(counting(behind=0), hops=2) as handle:
        wait_for_epoch(handle, 1)
        handle.change(counting(behind=1))
        handle.wait()
    moving = spark_run.directory / "moving"
    assert [path.name for path in moving.iterdir()] == ["000002"]
    assert (moving / "000002" / "imported").exists()
