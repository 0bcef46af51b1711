"""The slices that a hop's exchange leads to.

The hop does not know the topology. Every frame names its node and version; the operator is looked up by
them, the state by the address. A frame for a later hop or a sink passes through untouched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql.types import Row

from penstock.control.run_directory import RunDirectory
from penstock.engine.cache_ledger import Ledger, machine_bytes, machine_ledger
from penstock.engine.counters import Counters
from penstock.engine.flow import Departure
from penstock.engine.outbox import Outbox
from penstock.engine.slice_run import Arrival, SliceRun
from penstock.engine.slice_state import StateCache
from penstock.engine.state_log import Shelf
from penstock.engine.watermarks import Reached
from penstock.frames.frame import ARROW_SCHEMA, Frame
from penstock.plan.program import Program
from penstock.spark.handover import payload_of
from penstock.spark.mirror import Mirrored
from penstock.spark.rows import METRICS, WATERMARKS, Stamper
from penstock.spark.state_moves import STEPS, StateMove
from penstock.spark.tasks import boundary_for, failures_recorded, letters_frame, mirror_folder
from penstock.topology.graph import Node

CACHE_BYTES = int(os.environ.get("PENSTOCK_STATE_CACHE_BYTES", max(1 << 30, machine_bytes() // 8)))
"""What all workers of this machine may hold together."""
_CACHE = StateCache(CACHE_BYTES, Ledger(machine_ledger()))
"""Decoded states of the slices this worker served; workers are used again from epoch to epoch."""
_FrameRow = Row(*ARROW_SCHEMA.names)


class Host:
    """Runs the nodes of one hop on the slices of a task."""

    def __init__(self, hop: int, directory: str, run_id: str, partitions: int) -> None:
        self._hop = hop
        self._directory = RunDirectory(Path(directory))
        self._run_id = run_id
        self._partitions = partitions

    def serve(self, rows: Iterator[Row], shelf: Shelf) -> Iterator[Row]:
        """What comes of the rows of one address; the state of its slice is on the shelf."""
        first = next(rows)
        program = self._directory.load(first.version)
        node = program.hosted.get(first.node)
        if node is None or program.depth[first.node] != self._hop:
            yield first
            yield from rows
            return
        with failures_recorded(self._directory):
            yield from self._run(program, node, [first, *rows], shelf)

    def _run(self, program: Program, node: Node, rows: list[Row], shelf: Shelf) -> Iterator[Row]:
        head = rows[0]
        boundary, counters = (
            boundary_for(self._directory, head.epoch, f"-slice-{head.slice}"),
            Counters(),
        )
        run = SliceRun(program, node, head.slice, boundary, counters)
        times = [row.punctuation for row in rows if row.kind == "punctuation"]
        arrivals = [self._arrival(row) for row in rows if row.kind in ("data", "reference")]
        move = next((self._move(row) for row in rows if row.kind in STEPS), None)
        if not arrivals and not times and move is None:
            return  # it was told how far splits have come, and got nothing of them
        reached = [Reached(r.source, r.sequence, r.punctuation) for r in rows if r.kind == WATERMARKS]
        key = (f"{self._run_id}/{self._hop}", node.name, head.slice)
        mirrored = Mirrored(shelf, mirror_folder(*key))
        departures: Iterable[Departure] = ()
        held = _CACHE.take(key)
        if move is not None and move.step == "import":
            move.carry_out(shelf, mirrored)
        if arrivals or times:
            departures, held = run.run(arrivals, max(times, default=None), mirrored, held, reached)
        if move is not None and move.step != "import":
            move.carry_out(shelf, mirrored)
        elif held is not None:
            _CACHE.put(key, held, head.epoch)
            counters.holds(node.name, held.nbytes)
        waiting = program.waiting_sinks(self._hop)
        stamper = Stamper(head.version, head.epoch, self._directory.handover, waiting)
        outbox = Outbox(f"{node.name}#{head.slice:05d}", head.slice, boundary)
        for parcels in outbox.stream(departures):
            yield from to_rows(stamper.frames(parcels))
        yield from to_rows(letters_frame(boundary, stamper, head.slice))
        yield from to_rows(
            [stamper.control(METRICS, head.slice % self._partitions, "metrics", counters.to_json())]
        )

    def _move(self, row: Row) -> StateMove:
        return StateMove(self._directory, row.kind, int(bytes(row.payload)), row.node, row.slice)

    def _arrival(self, row: Row) -> Arrival:
        payload = payload_of(row.kind, row.payload, self._directory.handover)
        return Arrival(row.input, row.source, row.sequence, payload, row.punctuation)


def to_rows(frames: Iterable[Frame]) -> Iterator[Row]:
    """Frames as rows of Spark."""
    for frame in frames:
        yield _FrameRow(*(getattr(frame, name) for name in ARROW_SCHEMA.names))
