"""The one sink of a stage: executors write every sink's rows, the driver commits them under the epoch.

A replayed epoch commits again under the same number, and every sink is idempotent by it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.taskcontext import TaskContext

from penstock.connect.sink import Sink, SinkContext, SinkWriter
from penstock.control.fencing import number_of
from penstock.control.incidents import Incident, IncidentLog
from penstock.control.progress import NodeProgress, Progress
from penstock.control.run_directory import RunDirectory
from penstock.control.sink_places import note_place, require_place
from penstock.engine.counters import Counters
from penstock.errors import PenstockError, SinkUnavailable
from penstock.frames.frame import decode
from penstock.operators.boundary import DEAD_LETTERS
from penstock.plan.program import Program
from penstock.spark.frame_order import FrameOrder
from penstock.spark.handover import clear, payload_of
from penstock.spark.rows import CLOCK, LETTERS, METRICS
from penstock.spark.state_moves import note_import
from penstock.spark.tasks import failures_recorded, local_folder
from penstock.topology.schema import Schema


@dataclass
class Written(WriterCommitMessage):
    """What one task tells the driver."""

    version: int | None = None
    sinks: dict[str, Any] = field(default_factory=dict)
    metrics: list[bytes] = field(default_factory=list)
    clock: dict[str, Any] | None = None
    letters: int = 0


class OutletWriter(DataSourceStreamArrowWriter):
    """Writes frames that have reached their sinks."""

    def __init__(self, directory: str, run_id: str, term: str) -> None:
        self._directory_name = directory
        self._run_id = run_id
        self._term = term

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        attempt = f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}"  # type: ignore[union-attr]
        task = OutletTask(RunDirectory(Path(self._directory_name)), self._run_id, attempt)
        with failures_recorded(task.directory):
            return task.run(iterator)

    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:  # type: ignore[override]
        directory = RunDirectory(Path(self._directory_name))
        with failures_recorded(directory):
            directory.require_term(self._term)
            try:
                written = [m for m in messages if m is not None]
                commit_epoch(directory, self._run_id, self._term, batchId, written)
            except (PenstockError, OSError):
                directory.require_term(self._term)  # its files were taken away by the runner that replaced it
                raise

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:  # type: ignore[override]
        """Nothing to undo: what was written without a commit is not visible."""


@dataclass
class OutletTask:
    """One task's share of an epoch's output."""

    directory: RunDirectory
    run_id: str
    attempt: str
    written: Written = field(default_factory=Written)
    _writers: dict[str, SinkWriter] = field(default_factory=dict)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Written:
        try:
            with FrameOrder(local_folder()) as order:
                for batch in batches:
                    order.add(batch)
                for row in order.frames():
                    self._take(row)
            self._close_open()
        except BaseException:
            for writer in self._writers.values():
                writer.abort()
            raise
        return self.written

    def _close_open(self) -> None:
        """Close the writers whose frames have all come, so that they buffer nothing any more."""
        for name in self._writers.keys() - self.written.sinks.keys():
            with _may_be_away(name):
                self.written.sinks[name] = self._writers[name].close()

    def _take(self, row: dict[str, Any]) -> None:
        self.written.version = row["version"]
        if row["node"] == METRICS:
            self.written.metrics.append(bytes(row["payload"]))
        elif row["node"] == CLOCK:
            self.written.clock = json.loads(bytes(row["payload"]))
        else:
            schema = sink_schema(self.directory.load(row["version"]), row["node"])
            payload = payload_of(row["kind"], row["payload"], self.directory.handover)
            rows = decode(payload, schema)
            self.written.letters += rows.height if row["node"] == LETTERS else 0
            with _may_be_away(row["node"]):
                self._writer(row, schema).write(rows)

    def _writer(self, row: dict[str, Any], schema: Schema) -> SinkWriter:
        name = row["node"]
        if name not in self._writers:
            self._close_open()
            sink = sink_of(self.directory, self.directory.load(row["version"]), name)
            context = SinkContext(name, row["epoch"], self.run_id, self.attempt, self.directory.path, schema)
            _require_place(self.directory, name, sink)
            self._writers[name] = sink.open(context)
        return self._writers[name]


def commit_epoch(
    directory: RunDirectory, run_id: str, term: str, epoch: int, messages: list[Written]
) -> None:
    """Make an epoch visible in every sink, then note how it went.

    A runner may be stopped anywhere in here, and wake when a newer one has gone on. Each sink then finds the
    epoch done, by a check of its own that is atomic. What is written after the sinks is checked again, and it
    is such that a write between that check and the runner's end does no harm.
    """
    version = next((m.version for m in messages if m.version is not None), None)
    if version is None:
        return
    # Before the check: after it, no newer runner may plan this epoch under another version (see mending).
    directory.forget_failures()
    directory.require_term(term)
    program = directory.load(version)
    letters = sum(m.letters for m in messages)
    for name in (*program.sinks, *([LETTERS] if letters else [])):
        sink = sink_of(directory, program, name)
        schema = sink_schema(program, name)
        context = SinkContext(name, epoch, run_id, "commit", directory.path, schema)
        _require_place(directory, name, sink)
        with _may_be_away(name):
            sink.commit(context, [m.sinks[name] for m in messages if name in m.sinks])
            note_place(directory, name, sink)
    directory.require_term(term)
    counters = Counters.merged(text for m in messages for text in m.metrics)
    clock = next((m.clock for m in messages if m.clock is not None), None) or {}
    _remember_times(directory, program, counters)
    note_import(directory, epoch, clock.get("moves", {}))
    clear(directory.handover, up_to=epoch - 1)  # not this epoch's: a newer runner may be repeating it
    made = _progress(directory, program, epoch, version, counters, clock, letters)
    directory.append_progress(replace(made, fence=number_of(term)))
    if letters and directory.read_careful() == epoch:
        _tell_put_aside(directory, epoch, letters)


def _tell_put_aside(directory: RunDirectory, epoch: int, letters: int) -> None:
    what = "the epoch had killed a worker and was run with care; records were put aside"
    action = f"the run goes on without them; dead letters of this epoch: {letters}"
    IncidentLog(directory.incidents).add(Incident(time.time_ns(), epoch, "handled", what, action))


@contextmanager
def _may_be_away(sink: str) -> Iterator[None]:
    """Call what the system says about a sink's place by its name: it is waited for, as for any sink."""
    try:
        yield
    except OSError as error:
        step = "the epoch is repeated for as long as the run has patience"
        raise SinkUnavailable(
            sink=sink, what=f"{type(error).__name__}: {error}", where="its place", next_step=step
        ) from error


def _require_place(directory: RunDirectory, name: str, sink: Sink) -> None:
    if name != LETTERS:  # people may take dead letters away
        require_place(directory, name, sink)


def sink_of(directory: RunDirectory, program: Program, name: str) -> Sink:
    """A sink of the topology, or the table of records that were put aside."""
    if name != LETTERS:
        sink: Sink = program.sinks[name].sink
        return sink
    from penstock.connect.delta import Delta

    return Delta(str(directory.dead_letters))


def sink_schema(program: Program, name: str) -> Schema:
    return DEAD_LETTERS if name == LETTERS else program.input_schema(program.graph[name].inputs[0])


def _remember_times(directory: RunDirectory, program: Program, counters: Counters) -> None:
    if counters.observed:
        before = directory.read_observed()
        seen = {program.source_key(name): time for name, time in counters.observed.items()}
        latest = {key: max(time, before.get(key, time)) for key, time in seen.items()}
        directory.write_observed({**before, **latest})


def _progress(
    directory: RunDirectory,
    program: Program,
    epoch: int,
    version: int,
    counters: Counters,
    clock: dict[str, Any],
    letters: int,
) -> Progress:
    events = sum(counters.nodes[name]["rows_out"] for name in program.sources)
    before = directory.last_progress()
    total = before.total_events if before is not None and before.epoch < epoch else 0
    if before is not None and before.epoch >= epoch:
        total = before.total_events - before.events
    now = time.time_ns()
    nodes = tuple(
        NodeProgress(
            node.name,
            node.spec.kind,
            tally["rows_in"],
            tally["rows_out"],
            tally["busy_us"] / 1000,
            tally["state_bytes"],
            tally["late"],
        )
        for node in program.graph
        if node.name in counters.nodes and (tally := counters.nodes[node.name])
    )
    return Progress(
        epoch=epoch,
        version=version,
        events=events,
        total_events=total + events,
        epoch_ms=(now - clock.get("planned_ns", now)) / 1e6,
        at_ns=now,
        lag_rows=clock.get("lag_rows"),
        lag_bytes=clock.get("lag_bytes"),
        dead_letters=letters,
        nodes=nodes,
        finished=clock.get("finished", False),
    )
