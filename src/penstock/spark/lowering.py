"""Lay the fabric: one source, so many hops, one sink. The topology is not part of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from penstock.frames.frame import DDL
from penstock.plan.program import Program
from penstock.spark import native
from penstock.spark.hop import Hop
from penstock.spark.intake import FORMAT


def lay_fabric(
    spark: SparkSession,
    program: Program,
    *,
    directory: Path,
    run_id: str,
    term: str,
    hops: int,
    partitions: int,
    tasks: int,
    reads_ahead: bool,
) -> DataFrame:
    """The frames that reach the sink. Only DataFrame nodes put something of the topology into the plan."""
    place = str(directory)
    frames = (
        spark.readStream.format(FORMAT)
        .option("directory", place)
        .option("run_id", run_id)
        .option("term", term)
        .option("tasks", tasks)
        .option("reads_ahead", "true" if reads_ahead else "false")
        .load()
    )
    for level in range(hops + 1):
        if level:
            with _own_workers(spark, "hops"):
                frames = frames.groupBy("address").transformWithState(
                    Hop(level, place, run_id, partitions),
                    outputStructType=DDL,
                    outputMode="append",
                    timeMode="None",
                )
        for node in program.natives:
            if program.depth[node.name] == level:
                frames = native.insert(frames, node, program.input_schema(node.inputs[0]), place)
    return frames


@contextmanager
def _own_workers(spark: SparkSession, pool: str) -> Iterator[None]:
    """Let functions that are made inside run in Python workers of their own.

    Spark shares workers among all functions with the same environment. Hops keep decoded state in
    theirs, so they must be few and must not be lent to sources and sinks.
    """
    environment = spark.sparkContext.environment
    environment["PENSTOCK_WORKERS"] = pool
    try:
        yield
    finally:
        del environment["PENSTOCK_WORKERS"]
