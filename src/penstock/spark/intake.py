"""The one source of a stage: all of the topology's sources, and the clock that binds versions to epochs.

Its offset holds the version, every source's offset and the punctuations. Spark writes the offset to its
log before the epoch runs, so an epoch that is run again reads the same rows under the same version.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from penstock.connect.source import BadRecord, Limit, Offset, SourcePlanner, Split
from penstock.control.holding import honour_hold
from penstock.control.run_directory import RunDirectory
from penstock.engine.counters import Counters
from penstock.engine.flow import Flow
from penstock.engine.outbox import Outbox
from penstock.engine.punctuation import Punctuations, Standing, look_at_times
from penstock.frames.frame import DDL
from penstock.plan.program import Program
from penstock.spark.outlet import OutletWriter
from penstock.spark.rows import CLOCK, METRICS, Stamper, to_batch
from penstock.spark.tasks import (
    boundary_for,
    epoch_of_task,
    failures_recorded,
    letters_frame,
    spare_what_was_imported,
)
from penstock.topology.graph import OUT

FORMAT = "penstock"
SMALL_ROWS = 200_000
SMALL_BYTES = 8 << 20


class Fabric(DataSource):
    """Spark's doors into and out of Penstock."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return IntakeReader(self.options["directory"], int(self.options["tasks"]), int(self.options["term"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OutletWriter:
        spare_what_was_imported()  # Spark asks a process of its own for the writer in every epoch
        return OutletWriter(self.options["directory"], self.options["run_id"], int(self.options["term"]))


class IntakePartition(InputPartition):
    """What one task reads: splits of sources; the first task also keeps the clock."""

    def __init__(
        self,
        number: int,
        version: int,
        splits: list[tuple[str, dict[str, Any]]],
        clock: Any,
        promises: Mapping[str, int],
    ) -> None:
        super().__init__(number)
        self.number = number
        self.version = version
        self.splits = splits
        self.clock = clock
        self.promises = promises
        """What the sources had promised before this epoch."""


class IntakeReader(DataSourceStreamReader):
    """Plans epochs next to the driver, and reads splits in the workers."""

    def __init__(self, directory: str, tasks: int, term: int) -> None:
        self._directory = RunDirectory(Path(directory))
        self._tasks = tasks
        self._term = term
        self._planners: dict[tuple[str, str], SourcePlanner] = {}

    def initialOffset(self) -> dict[str, Any]:
        return {"version": 0, "sources": {}, "punctuation": {}, "tasks": 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._directory.hold.exists():
            return start
        with failures_recorded(self._directory):
            self._directory.require_term(self._term)
            honour_hold(self._directory, self._term)
            version = self._directory.current()
            program = self._directory.load(version)
            ends, small = dict(start["sources"]), True
            for name, spec in program.sources.items():
                planner = self._planner(program, name)
                begin = ends.get(name) or planner.initial()
                ends[name] = planner.latest(begin, Limit(spec.rows_per_epoch, spec.bytes_per_epoch))
                small = small and _is_small(planner, begin, ends[name])
            before = Punctuations.from_json(start["punctuation"])
            after = self._punctuations(program, before, start["sources"], ends)
            if (version, ends) == (start["version"], start["sources"]) and not after.moved_since(before):
                return start
            # How an epoch is split is part of its offset: run again on other cores, it is split the same.
            tasks = 1 if small else self._tasks
            return {"version": version, "sources": ends, "punctuation": after.to_json(), "tasks": tasks}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[IntakePartition]:
        with failures_recorded(self._directory):
            program = self._directory.load(end["version"])
            tasks = end["tasks"]
            bins: list[list[tuple[str, dict[str, Any]]]] = [[] for _ in range(tasks)]
            for name in program.sources:
                planner = self._planner(program, name)
                begin = start["sources"].get(name) or planner.initial()
                for i, split in enumerate(planner.splits(begin, end["sources"][name], tasks)):
                    bins[i % tasks].append((name, asdict(split)))
            clock = self._clock(program, start, end)
            promises = Punctuations.from_json(start["punctuation"]).sources
            filled = [splits for splits in bins if splits] or [[]]
            return [
                IntakePartition(i, end["version"], splits, clock if i == 0 else None, promises)
                for i, splits in enumerate(filled)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, IntakePartition)
        with failures_recorded(self._directory):
            yield from IntakeTask(self._directory, partition).batches()

    def commit(self, end: dict[str, Any]) -> None:
        program = self._directory.load(end["version"])
        for name in program.sources:
            self._planner(program, name).commit(end["sources"][name])

    def _planner(self, program: Program, name: str) -> SourcePlanner:
        key = (name, program.graph[name].logic)
        if key not in self._planners:
            folder = self._directory.planners / name
            folder.mkdir(parents=True, exist_ok=True)
            self._planners[key] = program.sources[name].source.planner(folder)
        return self._planners[key]

    def _punctuations(
        self, program: Program, before: Punctuations, starts: dict[str, Any], ends: dict[str, Any]
    ) -> Punctuations:
        observed = self._directory.read_observed()
        standings = {}
        for name in program.sources:
            planner = self._planner(program, name)
            begin = starts.get(name) or planner.initial()
            standings[name] = Standing.of(planner, begin, ends[name], observed.get(name))
        return before.after(program, standings, time.time_ns())

    def _clock(self, program: Program, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        backlogs = [self._planner(program, name).backlog(end["sources"][name]) for name in program.sources]
        before, after = (Punctuations.from_json(offset["punctuation"]) for offset in (start, end))
        return {
            "punctuations": after.moved_since(before),
            "lag_rows": _total(b.rows for b in backlogs),
            "lag_bytes": _total(b.bytes for b in backlogs),
            "finished": all(self._planner(program, n).finished(end["sources"][n]) for n in program.sources),
            "planned_ns": time.time_ns(),
        }


class IntakeTask:
    """Reads splits, runs what is fused behind their sources, and sends frames."""

    def __init__(self, directory: RunDirectory, partition: IntakePartition) -> None:
        epoch = epoch_of_task()
        self._program = directory.load(partition.version)
        self._partition = partition
        waiting = self._program.waiting_sinks(0)
        self._stamper = Stamper(partition.version, epoch, directory.handover, waiting)
        self._boundary = boundary_for(directory, epoch, f"-task-{partition.number}")
        self._counters = Counters()

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._partition.clock is not None:
            yield self._tick()
        for name, split in self._partition.splits:
            began = time.process_time()
            yield from self._read(name, Split(**split))
            self._counters.was_busy(name, time.process_time() - began)
        last = [self._stamper.control(METRICS, 0, "metrics", self._counters.to_json())]
        yield to_batch([*last, *letters_frame(self._boundary, self._stamper, self._partition.number)])

    def _tick(self) -> pa.RecordBatch:
        """The clock's frames: one for the sink, and for each slice how far time has come at its node."""
        clock = self._partition.clock
        frames = [self._stamper.control(CLOCK, 0, "tick", json.dumps(clock).encode())]
        for name, reached in clock["punctuations"].items():
            slices = range(self._program.graph[name].parallelism)
            frames += [self._stamper.control(name, s, "punctuation", punctuation=reached) for s in slices]
        return to_batch(frames)

    def _read(self, name: str, split: Split) -> Iterator[pa.RecordBatch]:
        source = self._program.sources[name].source
        outbox = Outbox(name, self._partition.number % 120, self._boundary)
        for batch in source.read(split, self._rejecter(name)):
            flow = Flow(self._program, self._boundary, self._counters)
            if source.time is not None:
                promised = self._partition.promises.get(name)
                look_at_times(self._counters, name, batch.rows[source.time], promised)
            flow.push(name, OUT, batch.rows)
            if frames := self._stamper.frames(outbox.add(flow.take(), batch.position)):
                yield to_batch(frames)
        if frames := self._stamper.frames(outbox.flush()):
            yield to_batch(frames)

    def _rejecter(self, source: str) -> Any:
        def reject(bad: BadRecord) -> None:
            self._boundary.reject(source, bad.position, bad.where, bad.raw, bad.reason)

        return reject


def _is_small(planner: SourcePlanner, start: Offset, end: Offset) -> bool:
    """Whether one task reads it faster than several: each has a fixed cost of tens of milliseconds."""
    if start == end:
        return True
    before, after = planner.backlog(start), planner.backlog(end)
    if before.bytes is not None and after.bytes is not None:
        return before.bytes - after.bytes < SMALL_BYTES
    if before.rows is not None and after.rows is not None:
        return before.rows - after.rows < SMALL_ROWS
    return False


def _total(counts: Iterator[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
