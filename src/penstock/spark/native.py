"""Nodes that are Spark DataFrames: frames become rows, the user's function runs, rows become frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.taskcontext import TaskContext

from penstock.control.run_directory import RunDirectory
from penstock.engine.counters import Counters
from penstock.engine.flow import Flow
from penstock.engine.outbox import Outbox
from penstock.frames.frame import ARROW_SCHEMA, DDL, decode
from penstock.operators.boundary import emitted
from penstock.spark.offset_log import read_offset
from penstock.spark.rows import METRICS, Stamper, to_batch, to_batches
from penstock.spark.tasks import boundary_for, epoch_of_task, failures_recorded, letters_frame
from penstock.spark.types import from_spark, to_ddl, to_spark_batch
from penstock.topology import specs
from penstock.topology.graph import OUT, Node
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def insert(frames: DataFrame, node: Node, schema: Schema, directory: str) -> DataFrame:
    """Put a DataFrame node into the fabric: its rows take the way through Spark, all others pass."""
    spec: specs.DataFrameSpec = node.spec  # type: ignore[assignment]
    mine = frames.where(frames["node"] == node.name)
    rows = mine.mapInArrow(_opened(schema), to_ddl(schema))
    made = spec.function(rows)
    back = made.mapInArrow(_framed(node.name, spec.returns, directory), DDL)
    return frames.where(frames["node"] != node.name).unionByName(back)


def _opened(schema: Schema) -> Batches:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column(ARROW_SCHEMA.get_field_index("payload")).to_pylist():
                yield to_spark_batch(decode(payload, schema).to_arrow(), schema)

    return run


def _framed(name: str, returns: Schema, directory_name: str) -> Batches:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        epoch, context = epoch_of_task(), TaskContext.get()
        place = context.partitionId()  # type: ignore[union-attr]
        directory = RunDirectory(Path(directory_name))
        version = int(read_offset(directory, epoch)["version"])
        program, counters = directory.load(version), Counters()
        boundary, stamper = (
            boundary_for(directory, epoch, f"-task-{place}"),
            Stamper(version, epoch, directory.handover),
        )
        outbox = Outbox(f"{name}#{place:05d}", place % 120, boundary)
        with failures_recorded(directory):
            node = program.graph[name]
            for number, batch in enumerate(batches):
                rows = emitted(node, OUT, from_spark(batch, returns), returns)
                counters.took(name, rows.height)
                flow = Flow(program, boundary, counters)
                flow.push(name, OUT, rows)
                yield from to_batches(stamper.frames(outbox.add(flow.take(), number)))
            yield from to_batches(stamper.frames(outbox.flush()))
            letters = letters_frame(boundary, stamper, place)
            yield to_batch([*letters, stamper.control(METRICS, 0, "metrics", counters.to_json())])

    return run
