"""What a task of the intake does: read pieces of sources, run what is fused behind them, send frames."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from penstock.connect.source import BadRecord, Batch, Split
from penstock.control.run_directory import RunDirectory
from penstock.engine.counters import Counters
from penstock.engine.event_times import SplitTimes, reached
from penstock.engine.flow import Flow
from penstock.engine.outbox import Outbox
from penstock.frames.frame import ARROW_SCHEMA, Frame
from penstock.spark.read_ahead import Visit, room_of
from penstock.spark.rows import CLOCK, METRICS, WATERMARKS, Stamper, to_batch, to_batches
from penstock.spark.tasks import boundary_for, epoch_of_task, known_by, letters_frame
from penstock.topology.graph import OUT


class Share(NamedTuple):
    """A split of a source, for one task."""

    source: str
    split: str
    """As JSON."""
    bound: int | None
    """The latest time that its events may have."""
    is_alone: bool
    """Whether it is all that the epoch reads of the source."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A share as one epoch reads it: all that its frames depend on."""

    run_id: str
    term: str
    epoch: int
    version: int
    task: int
    share: Share


class IntakePartition(InputPartition):
    """What one task reads, now and probably in the next epoch; the first task also keeps the clock."""

    def __init__(
        self,
        number: int,
        version: int,
        shares: list[Share],
        following: list[Share],
        clock: dict[str, Any] | None,
        observed: Mapping[str, int],
    ) -> None:
        super().__init__(number)
        self.number = number
        self.version = version
        self.shares = shares
        self.following = following
        """What the same task of the next epoch will read, as far as that is foreseen."""
        self.clock = clock
        self.observed = observed
        """The greatest event time of each source before the epoch; not known to what is read in advance."""


class IntakeTask:
    """Reads the pieces of one partition."""

    def __init__(self, directory: RunDirectory, run_id: str, term: str, partition: IntakePartition) -> None:
        self._directory = directory
        self._run = (run_id, term)
        self._partition = partition
        self._epoch = epoch_of_task()
        self._program = directory.load(partition.version)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._partition.clock is not None:
            yield self._tick(self._partition.clock)
        pieces = self._pieces(self._epoch, self._partition.shares)
        room = room_of(self._partition.number)
        if room is None:
            for piece in pieces:
                yield from self._stamped(piece, self._read(piece))
            return
        with room.entered() as visit:
            for piece in pieces:
                found = visit.batches(piece)
                yield from self._stamped(piece, self._read(piece) if found is None else found)
        self._read_next(visit)

    def _stamped(self, piece: Piece, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The frames of a piece, which take along what the source had promised before the epoch."""
        name = piece.share.source
        start = reached(self._program.sources[name].source, self._partition.observed.get(name))
        column = ARROW_SCHEMA.get_field_index("punctuation")
        for batch in batches:
            if start is None:
                yield batch
            else:
                least = pc.max_element_wise(batch.column(column), pa.scalar(start, pa.int64()))
                yield batch.set_column(column, ARROW_SCHEMA.field(column), least)

    def _read_next(self, visit: Visit) -> None:
        """Not beside an epoch that has killed a worker: the next one may have been the cause."""
        careful = self._directory.read_careful()
        if self._partition.following and (careful is None or careful < self._epoch):
            visit.read_next(self._pieces(self._epoch + 1, self._partition.following), self._read)

    def _pieces(self, epoch: int, shares: list[Share]) -> list[Piece]:
        number, version = self._partition.number, self._partition.version
        return [Piece(*self._run, epoch, version, number, share) for share in shares]

    def _tick(self, clock: dict[str, Any]) -> pa.RecordBatch:
        """The clock's frames: one for the sink, and for each slice how far time has come at its node."""
        stamper = self._stamper(self._epoch)
        frames = [stamper.control(CLOCK, 0, "tick", json.dumps(clock).encode())]
        for name, time_us in clock["punctuations"].items():
            slices = range(self._program.graph[name].parallelism)
            frames += [stamper.control(name, s, "punctuation", punctuation=time_us) for s in slices]
        for name, (step, slices_, version) in clock["moves"].items():
            target = str(version).encode()
            frames += [stamper.control(name, s, step, target) for s in range(slices_)]
        return to_batch(frames)

    def _read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The frames of a piece, and last what was counted and put aside in it."""
        began = time.thread_time()
        stamper, counters = self._stamper(piece.epoch), Counters()
        boundary = boundary_for(self._directory, piece.epoch, f"-task-{piece.task}")
        source = self._program.sources[piece.share.source].source
        outbox = Outbox(piece.share.source, piece.task % 120, boundary)

        def reject(bad: BadRecord) -> None:
            boundary.reject(piece.share.source, bad.position, bad.where, bad.raw, bad.reason)

        listeners = self._program.wants_watermarks(piece.share.source)
        bound = piece.share.bound
        times = SplitTimes(piece.share.source, source, bound, counters, boundary, bool(listeners))
        split = Split(**json.loads(piece.share.split))
        batches = source.read(split, reject)
        for batch in _by_name(batches, piece.share.source):
            flow = Flow(self._program, boundary, counters)
            flow.push(piece.share.source, OUT, times.look(batch))
            yield from to_batches(stamper.frames(outbox.add(flow.take(), batch.position)))
        yield from to_batches(stamper.frames(outbox.flush()))
        counters.was_busy(piece.share.source, time.thread_time() - began)
        last = [stamper.control(METRICS, 0, "metrics", counters.to_json())]
        if not piece.share.is_alone and not source.knows_watermarks and source.lateness_us is not None:
            last += self._how_far(stamper, piece.share.source, split.position, times.reached)
        yield to_batch([*last, *letters_frame(boundary, stamper, piece.task)])

    def _how_far(self, stamper: Stamper, source: str, position: int, reached: int | None) -> list[Frame]:
        """Frames that tell all who judge by it how far a split takes the watermark of its source."""
        return [
            stamper.control(
                node.name, slice_, WATERMARKS, source=source, sequence=position, punctuation=reached
            )
            for node in self._program.wants_watermarks(source)
            for slice_ in range(node.parallelism)
        ]

    def _stamper(self, epoch: int) -> Stamper:
        waiting = self._program.waiting_sinks(0)
        return Stamper(self._partition.version, epoch, self._directory.handover, waiting)


def _by_name(batches: Iterator[Batch], source: str) -> Iterator[Batch]:
    with known_by(source):
        yield from batches
