"""The one source of a stage: all of the topology's sources, and the clock that binds versions to epochs.

Its offset holds the version, every source's offset and the punctuations. Spark writes the offset to its
log before the epoch runs, so an epoch that is run again reads the same rows under the same version.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from penstock.connect.source import Limit, Offset, Source, SourcePlanner, bound_of
from penstock.control.holding import honour_hold
from penstock.control.run_directory import RunDirectory
from penstock.engine.beginning import generations_of, must_wait, reopened, start_for
from penstock.engine.punctuation import Punctuations, Standing
from penstock.errors import VersionNotLoadable
from penstock.frames.frame import DDL
from penstock.plan.program import Program
from penstock.spark.outlet import OutletWriter
from penstock.spark.reading import IntakePartition, IntakeTask, Share
from penstock.spark.state_moves import next_version, steps_of
from penstock.spark.tasks import failures_recorded, known_by, spare_what_was_imported

FORMAT = "penstock"
SMALL_ROWS = 200_000
SMALL_BYTES = 8 << 20
PIECE_OF_SMALL = 4.0
"""How large the pieces are that a task reads: a million rows or some tens of megabytes."""
MOST_PIECES = 64


class Fabric(DataSource):
    """Spark's doors into and out of Penstock."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return IntakeReader(
            self.options["directory"],
            self.options["run_id"],
            term=self.options["term"],
            tasks=int(self.options["tasks"]),
            reads_ahead=self.options["reads_ahead"] == "true",
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> OutletWriter:
        spare_what_was_imported()  # Spark asks a process of its own for the writer in every epoch
        return OutletWriter(self.options["directory"], self.options["run_id"], self.options["term"])


class Foreseen(NamedTuple):
    """How an epoch that begins at an offset, under a limit, ends, and the latest time of its events."""

    begin: Offset
    limit: Limit
    end: Offset
    bound: int | None


class IntakeReader(DataSourceStreamReader):
    """Plans epochs next to the driver, and reads splits in the workers."""

    def __init__(self, directory: str, run_id: str, *, term: str, tasks: int, reads_ahead: bool) -> None:
        self._directory = RunDirectory(Path(directory))
        self._run_id = run_id
        self._term = term
        self._tasks = tasks
        self._reads_ahead = reads_ahead
        self._planners: dict[tuple[str, str], SourcePlanner] = {}
        self._foreseen: dict[SourcePlanner, Foreseen] = {}

    def initialOffset(self) -> dict[str, Any]:
        return {"version": 0, "sources": {}, "punctuation": {}, "tasks": 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._directory.hold(self._term).exists():
            return start
        with failures_recorded(self._directory):
            self._directory.require_term(self._term)
            honour_hold(self._directory, self._term)
            version, exports_for = next_version(self._directory, start)
            program = self._directory.load(version)
            begun = start_for(program, start)
            before = Punctuations.from_json(begun["punctuation"])
            reopening = reopened(program, before, set(begun["sources"]), self._directory.read_observed())
            waiting = must_wait(program, before, reopening, set(begun["sources"]))
            ends, bounds = self._ends(program, begun["sources"], waiting)
            after = self._punctuations(program, reopening, begun["sources"], ends, bounds)
            is_same = (version, ends, exports_for) == (start["version"], start["sources"], None)
            if is_same and not after.moved_since(before):
                return start
            cut = self._cut(program, begun["sources"], ends)
            if generations := generations_of(program, start):
                cut["generations"] = generations
            if exports_for is not None:
                cut["exports"] = exports_for
            return {"version": version, "sources": ends, "punctuation": after.to_json(), **cut}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[IntakePartition]:
        with failures_recorded(self._directory):
            program = self._directory.load(end["version"])
            start = start_for(program, start)
            clock = self._clock(program, start, end)
            parts = self._parts(program, start, end)
            following = self._following(program, end) if self._reads_ahead else []
            following += [[]] * len(parts)
            observed = Punctuations.from_json(end["punctuation"]).observed
            return [
                IntakePartition(i, end["version"], shares, following[i], clock if i == 0 else None, observed)
                for i, shares in enumerate(parts)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, IntakePartition)
        with failures_recorded(self._directory):
            yield from IntakeTask(self._directory, self._run_id, self._term, partition).batches()

    def commit(self, end: dict[str, Any]) -> None:
        with failures_recorded(self._directory):
            program = self._program_before(end["version"])
            for name in program.sources.keys() & end["sources"].keys():
                with self._planner(program, name) as planner:
                    planner.commit(end["sources"][name])

    def _program_before(self, version: int) -> Program:
        """A version whose epochs are committed; the current one if another Python had made it."""
        try:
            return self._directory.load(version)
        except VersionNotLoadable:
            return self._directory.load(self._directory.current())

    def _ends(
        self, program: Program, starts: dict[str, Offset], waiting: Set[str] = frozenset()
    ) -> tuple[dict[str, Offset], dict[str, int | None]]:
        """How far the sources are read in an epoch, and which times their events may have.

        Where that was foreseen, so it is done: it may have been read.
        """
        ends, bounds = dict(starts), dict[str, int | None]()
        for name, spec in program.sources.items():
            limit = Limit(*spec.limits)
            with self._planner(program, name) as planner:
                begin = ends.get(name) or planner.initial()
                if name in waiting:
                    ends[name], bounds[name] = begin, None
                    continue
                found = self._foreseen.pop(planner, None)
                if found is None or (found.begin, found.limit) != (begin, limit):
                    end = planner.latest(begin, limit)
                    found = Foreseen(begin, limit, end, bound_of(spec.source, time.time_ns()))
                ends[name], bounds[name] = found.end, found.bound
        return ends, bounds

    def _cut(self, program: Program, starts: dict[str, Offset], ends: dict[str, Offset]) -> dict[str, Any]:
        """Into how many tasks an epoch is cut, and how many pieces each of them reads.

        It is part of the epoch's offset: run again on other cores, it is cut the same.
        """
        sizes = []
        for name in program.sources:
            with self._planner(program, name) as planner:
                sizes.append(_size(planner, starts.get(name) or planner.initial(), ends[name]))
        if all(size is not None and size < 1 for size in sizes):
            return {"tasks": 1, "pieces": 1}
        largest = max((size for size in sizes if size is not None), default=1.0)
        pieces = math.ceil(largest / PIECE_OF_SMALL / self._tasks)
        return {"tasks": self._tasks, "pieces": max(1, min(pieces, MOST_PIECES))}

    def _parts(self, program: Program, start: dict[str, Any], end: dict[str, Any]) -> list[list[Share]]:
        """What each task reads of an epoch."""
        tasks, pieces = end["tasks"], end.get("pieces", 1)
        bounds = Punctuations.from_json(end["punctuation"]).bounds
        parts: list[list[Share]] = [[] for _ in range(tasks)]
        for name in program.sources:
            with self._planner(program, name) as planner:
                begin = start["sources"].get(name) or planner.initial()
                number = tasks * (pieces if planner.foresees else 1)
                splits = planner.splits(begin, end["sources"][name], number)
            for i, split in enumerate(splits):
                text = json.dumps(asdict(split))
                share = Share(name, text, bounds.get(name), is_alone=len(splits) == 1)
                parts[i % tasks].append(share)
        return [shares for shares in parts if shares] or [[]]

    def _following(self, program: Program, end: dict[str, Any]) -> list[list[Share]]:
        """What the tasks will read of the next epoch, as far as that is certain."""
        ends, bounds = dict(end["sources"]), dict[str, int]()
        try:
            for name, spec in program.sources.items():
                limit = Limit(*spec.limits)
                with self._planner(program, name) as planner:
                    ends[name], bound = self._foresee(planner, ends[name], limit, spec.source)
                if bound is not None:
                    bounds[name] = bound
            if ends == end["sources"]:
                return []
            cut = self._cut(program, end["sources"], ends)
            times = Punctuations(bounds=bounds).to_json()
            return self._parts(program, end, {"sources": ends, "punctuation": times, **cut})
        except Exception:  # noqa: BLE001 - it is the next epoch's trouble, which asks again
            return []

    def _foresee(
        self, planner: SourcePlanner, begin: Offset, limit: Limit, source: Source
    ) -> tuple[Offset, int | None]:
        """The end and the bound of the next epoch; its beginning if more may come until it is planned."""
        if not planner.foresees or limit == Limit():
            return begin, None
        end = planner.latest(begin, limit)
        left = planner.backlog(end)
        if end == begin or not (left.rows or left.bytes or planner.finished(end)):
            return begin, None
        found = Foreseen(begin, limit, end, bound_of(source, time.time_ns()))
        self._foreseen[planner] = found
        return end, found.bound

    @contextmanager
    def _planner(self, program: Program, name: str) -> Iterator[SourcePlanner]:
        """A source's planner, for as long as it is asked: what is amiss is told by the source's name."""
        key = (program.source_key(name), program.graph[name].logic)
        with known_by(name):
            if key not in self._planners:
                folder = self._directory.planners / key[0]
                folder.mkdir(parents=True, exist_ok=True)
                self._planners[key] = program.sources[name].source.planner(folder)
            yield self._planners[key]

    def _punctuations(
        self,
        program: Program,
        before: Punctuations,
        starts: dict[str, Any],
        ends: dict[str, Any],
        bounds: dict[str, int | None],
    ) -> Punctuations:
        observed = self._directory.read_observed()
        standings = {}
        for name in program.sources:
            with self._planner(program, name) as planner:
                begin = starts.get(name) or planner.initial()
                seen = observed.get(program.source_key(name))
                standings[name] = Standing.of(planner, begin, ends[name], seen, bounds[name])
        return before.after(program, standings, time.time_ns())

    def _clock(self, program: Program, start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
        backlogs, finished = [], []
        for name in program.sources:
            with self._planner(program, name) as planner:
                backlogs.append(planner.backlog(end["sources"][name]))
                finished.append(planner.finished(end["sources"][name]))
        before, after = (Punctuations.from_json(offset["punctuation"]) for offset in (start, end))
        return {
            "punctuations": after.moved_since(before),
            "lag_rows": _total(b.rows for b in backlogs),
            "lag_bytes": _total(b.bytes for b in backlogs),
            "finished": all(finished),
            "planned_ns": time.time_ns(),
            "moves": steps_of(self._directory, start, end),
        }


def _size(planner: SourcePlanner, start: Offset, end: Offset) -> float | None:
    """What lies between two offsets over what one task reads faster than several; None: not known.

    Each task has a fixed cost of tens of milliseconds.
    """
    if start == end:
        return 0.0
    before, after = planner.backlog(start), planner.backlog(end)
    if before.bytes is not None and after.bytes is not None:
        return (before.bytes - after.bytes) / SMALL_BYTES
    if before.rows is not None and after.rows is not None:
        return (before.rows - after.rows) / SMALL_ROWS
    return None


def _total(counts: Iterator[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
