"""Change the number of state partitions of a run that is not running, with nothing lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.control.checkpoint import check, last_committed, last_planned, rebase
from penstock.control.linking import link_tree
from penstock.control.rescale_swap import declare_ready, finish_rescale, workplace
from penstock.control.run_directory import RunDirectory
from penstock.errors import InternalError, SavepointFailed
from penstock.spark.options import RunOptions
from penstock.spark.session import open_session


def rescale(directory: Path, options: RunOptions) -> tuple[int, int]:
    """Give a run ``options.partitions`` state partitions; tells how many there were and are.

    A crash at any moment leaves the run as it was, or as it is to be.
    """
    run = RunDirectory(directory.resolve())
    try:
        run.read_card()
    except FileNotFoundError:
        step = "name the directory of a run (its --dir)"
        raise SavepointFailed(directory=run.path, what="it holds no run", next_step=step) from None
    with run.lock():
        run.begin_term()
        finish_rescale(run)
        shape = run.fabric()
        if shape is None or options.partitions is None:
            raise SavepointFailed(directory=run.path, what="the run has not begun", next_step="run it first")
        before = shape["partitions"]
        if before != options.partitions:
            _rescale(run, {**shape, "partitions": options.partitions}, options)
    return before, options.partitions


def rescaled(run: RunDirectory, options: RunOptions) -> None:
    """Rescale a directory that nobody knows yet, in its place."""
    shape = run.fabric()
    if shape is None or options.partitions in (None, shape["partitions"]):
        return
    shape = {**shape, "partitions": options.partitions}
    if shape["hops"]:
        _repartition(run, run.checkpoint, shape["partitions"], options)
    run.write_fabric(**shape)


def _rescale(run: RunDirectory, shape: dict[str, int], options: RunOptions) -> None:
    check(run.path)
    begun = last_planned(run.checkpoint)
    if begun != last_committed(run.checkpoint):
        step = "run it once with --until caught-up, then rescale"
        raise SavepointFailed(directory=run.path, what=f"epoch {begun} is not finished", next_step=step)
    if not shape["hops"] or begun is None:  # there is no state that would have to move
        run.write_fabric(**shape)
        return
    fresh = workplace(run) / "checkpoint"
    link_tree(run.checkpoint, fresh)
    rebase(fresh, at=fresh)
    _repartition(run, fresh, shape["partitions"], options)
    rebase(fresh, at=run.checkpoint)
    declare_ready(run, **shape)
    finish_rescale(run)


def _repartition(run: RunDirectory, checkpoint: Path, partitions: int, options: RunOptions) -> None:
    """Spark's own repartition. It is private and experimental, so what it did is looked at."""
    here = replace(options, directory=run.path)
    spark = open_session(here, run.path, partitions, has_dataframes=False)
    before = last_committed(checkpoint)
    try:
        _ask_spark(spark, checkpoint, partitions)
    except PySparkException as error:
        reason = str(error).partition("\n")[0]
        step = "nothing was changed; take a savepoint and tell us"
        raise SavepointFailed(
            directory=run.path, what=f"Spark could not repartition ({reason})", next_step=step
        ) from error
    places = {path.name for path in checkpoint.glob("state/0/[0-9]*")}
    done = last_committed(checkpoint)
    if before is None or done != before + 1 or not {str(n) for n in range(partitions)} <= places:
        raise InternalError(
            what=f"Spark's repartition to {partitions} left commit {done} and {sorted(places)}"
        )


def _ask_spark(spark: SparkSession, checkpoint: Path, partitions: int) -> None:
    spark._streamingCheckpointManager.repartition(str(checkpoint), partitions)
