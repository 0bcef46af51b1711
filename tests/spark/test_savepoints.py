"""Savepoints and rescale on Spark: with other partitions, in other places, the answer is the reference's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock import testing
from penstock.connect.collect import read
from penstock.control.checkpoint import last_committed, rebase
from penstock.control.forgetting import forget_state
from penstock.control.restoring import restore
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoints import create
from penstock.errors import PenstockError, RunDirectoryBroken, SavepointFailed
from penstock.spark.options import RunOptions
from penstock.spark.rescaling import rescale, rescaled
from tests.spark.topologies import totals_topology

pytestmark = pytest.mark.spark
OPTIONS = {"master": "local[2]"}


def wait_for_epoch(handle: Any, epoch: int) -> None:
    while (progress := handle.progress()) is None or progress.epoch < epoch:
        assert not handle.poll(0.05), "the run ended early"


def begin(spark_run: Any, top: ps.Topology, epoch: int) -> None:
    """Run until an epoch is committed, and stop."""
    with spark_run.start(top, partitions=2) as handle:
        wait_for_epoch(handle, epoch)


def test_a_savepoint_of_a_running_topology_is_restored_with_other_partitions(
    spark_run: Any, same_rows: Any, tmp_path: Path
) -> None:
    top = totals_topology(ps.Collect(), rows=12_000)
    with spark_run.start(top, partitions=2) as handle:
        wait_for_epoch(handle, 1)
        made = create(spark_run.directory)
        handle.wait()
    expected = testing.run(top)["collect"]
    same_rows(spark_run.collected(top)["collect"], expected)  # whoever was saved has lost nothing

    into = RunOptions(partitions=3, **OPTIONS)
    back = restore(made, tmp_path / "moved", prepare=lambda run: rescaled(run, into))
    shutil.rmtree(spark_run.directory / "checkpoint")  # the restored run needs nothing of the other one
    spark_run.directory, before = back.path, spark_run.directory
    with spark_run.start(top) as handle:
        handle.wait()
        assert handle.history()[-1].total_events == 12_000
    assert back.fabric() == {"hops": 1, "partitions": 3}
    files = sorted((before / "collect" / "collect").glob("*.arrow"))
    first = [pl.read_ipc(file.read_bytes()) for file in files if int(file.stem) <= made.manifest.epoch]
    assert 0 < len(first) < len(files)
    same_rows(pl.concat([*first, read(back.path, "collect")]), expected)


def test_a_stopped_run_is_rescaled_and_goes_on(spark_run: Any, same_rows: Any) -> None:
    top = totals_topology(ps.Collect(), rows=6_000)
    begin(spark_run, top, 1)
    place = spark_run.directory
    assert rescale(place, RunOptions(partitions=5, **OPTIONS)) == (2, 5)
    assert rescale(place, RunOptions(partitions=5, **OPTIONS)) == (5, 5)
    assert rescale(place, RunOptions(partitions=1, **OPTIONS)) == (5, 1)
    same_rows(spark_run.through(top)["collect"], testing.run(top)["collect"])


def test_an_unfinished_epoch_is_not_rescaled(spark_run: Any) -> None:
    begin(spark_run, totals_topology(ps.Collect(), rows=6_000), 1)
    checkpoint = spark_run.directory / "checkpoint"
    (checkpoint / "commits" / str(last_committed(checkpoint))).unlink()
    with pytest.raises(SavepointFailed):
        rescale(spark_run.directory, RunOptions(partitions=5, **OPTIONS))


def test_a_dropped_state_begins_anew(spark_run: Any) -> None:
    top = totals_topology(ps.Collect(), rows=6_000)
    begin(spark_run, top, 1)
    done = len(list((spark_run.directory / "checkpoint" / "commits").glob("[0-9]*")))
    forget_state(RunDirectory(spark_run.directory), ["totals"])
    spark_run.through(top)
    last = read(spark_run.directory, "collect").group_by("user").agg(pl.col("orders").last())
    assert last["orders"].sum() == 6_000 - 1_000 * done


def damaged(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content if how == "flip" else content[: len(content) // 2])


def files_of(directory: Path) -> list[Path]:
    """Everything that a start may read, without results and logs for people."""
    left_out = (
        "collect",
        "savepoints",
        "lock",
        "changing",
        "log4j2.properties",
        "spark.log",
        "terms",
        "hold",
    )
    names = (path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file())
    return [name for name in names if name.parts[0] not in left_out]


def outcome(spark_run: Any, top: ps.Topology) -> pl.DataFrame | PenstockError:
    try:
        collected: pl.DataFrame = spark_run.through(top)["collect"]
    except PenstockError as error:
        return error
    return collected


def test_a_damaged_change_of_the_state_is_named(spark_run: Any) -> None:
    top = totals_topology(ps.Collect(), rows=6_000)
    begin(spark_run, top, 1)
    done = last_committed(spark_run.directory / "checkpoint")
    assert done is not None
    made = create(spark_run.directory)
    name = Path(f"checkpoint/state/0/0/{done + 1}.changelog")
    damaged(spark_run.directory / name, "flip")
    with pytest.raises(RunDirectoryBroken) as caught:
        spark_run.through(top)
    assert caught.value.parameters["path"] == spark_run.directory / name
    assert str(made.path) in caught.value.parameters["next_step"]


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
def test_no_damaged_file_leads_to_wrong_results(spark_run: Any, tmp_path: Path) -> None:
    """Each file of a run directory in turn, flipped and cut."""
    top = totals_topology(ps.Collect(), rows=5_000)
    begin(spark_run, top, 2)
    whole, expected = spark_run.directory, testing.run(top)["collect"]
    for number, name in enumerate(files_of(whole)):
        for how in ("flip", "cut"):
            spark_run.directory = tmp_path / f"{how}-{number}"
            shutil.copytree(whole, spark_run.directory)
            rebase(spark_run.directory / "checkpoint", at=spark_run.directory / "checkpoint")
            damaged(spark_run.directory / name, how)
            came = outcome(spark_run, top)
            if isinstance(came, pl.DataFrame):
                assert came.sort(came.columns).equals(expected.sort(came.columns)), f"{how} of {name}"
            else:
                assert isinstance(came, RunDirectoryBroken), f"{how} of {name}: {came}"
                assert Path(came.parameters["path"]).name in (name.name, name.name[1:].removesuffix(".crc"))
            shutil.rmtree(spark_run.directory)
