"""The reference engine: any topology in plain Python, with chosen epoch cuts and arrival orders.

It is an oracle, never a product engine: one process, state in memory, no speed. Operators, routing and
the order within a slice are the real ones; sources, exchange, state store and sinks are replaced by
the plainest thing that can be right.
"""

from __future__ import annotations

import datetime as dt
import random
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from penstock.connect.source import BadRecord, Limit, Offset, SourcePlanner, bound_of
from penstock.control.changes import ChangePlan, plan_change, require_applicable
from penstock.control.moves import moves_between
from penstock.control.source_changes import Decision
from penstock.engine.beginning import must_wait, reopened
from penstock.engine.counters import Counters
from penstock.engine.event_times import SplitTimes, reached
from penstock.engine.flow import Flow
from penstock.engine.log_transfer import read_log, write_log
from penstock.engine.outbox import Outbox, Parcel
from penstock.engine.punctuation import Punctuations, Standing
from penstock.engine.slice_run import Arrival, SliceRun
from penstock.engine.slice_state import Held
from penstock.engine.watermarks import Reached, later
from penstock.errors import BadArgument
from penstock.frames.frame import decode
from penstock.frames.types import empty, to_polars
from penstock.operators.boundary import DEAD_LETTERS, Boundary, emitted
from penstock.operators.event_time import as_us
from penstock.plan.passes import plan
from penstock.plan.program import Program
from penstock.topology import specs
from penstock.topology.graph import OUT, Node
from penstock.topology.stream import Topology


class MemoryShelf:
    """A slice's log in a dict."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self._head: bytes | None = None

    def head(self) -> bytes | None:
        return self._head

    def put_head(self, head: bytes) -> None:
        self._head = head

    def drop_head(self) -> None:
        self._head = None

    def get(self, number: int) -> bytes | None:
        return self.values.get(number)

    def put(self, number: int, value: bytes) -> None:
        self.values[number] = bytes(value)

    def drop(self, number: int) -> None:
        del self.values[number]

    def distrust(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Epoch:
    """How one epoch is cut: so many rows of each source at most, read in so many splits."""

    rows: int | None = None
    splits: int = 1


@dataclass
class ReferenceRun:
    """A topology in the hands of a test: step by step, with its state open to inspection."""

    topology: Topology
    seed: int | None = None
    """Frames arrive in an order drawn from this seed; None: as they were sent."""
    keep_decoded: bool = False
    """Use decoded state again between epochs, as workers do; otherwise read it from the log each time."""
    outputs: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    dead_letters: list[dict[str, Any]] = field(default_factory=list)
    epoch: int = 0
    version: int = 1
    hops: int | None = None
    """The exchanges of the fabric; None: as many as the present topology needs."""
    now_ns: int = 0
    """The clock on the wall, which stands still unless the test moves it: sources become idle by it."""
    today: dt.datetime | None = None
    """The date on the wall, by which events are too far ahead; None: no date is known, and none is."""

    def __post_init__(self) -> None:
        self.program: Program = plan(self.topology)
        self.counters = Counters()
        self._shelves: dict[tuple[int, str, int], MemoryShelf] = {}
        """By hop, node and slice: each hop has a store of its own, as on Spark."""
        self._held: dict[tuple[int, str, int], Held] = {}
        self._next: ChangePlan | None = None
        self._anew: list[str] = []
        """Sources that the next version starts anew."""
        self._offsets: dict[str, Offset] = {}
        self._planners: dict[tuple[str, str], SourcePlanner] = {}
        self._punctuations = Punctuations()
        self._seen_before: dict[str, int] = {}
        """The greatest event times of sources before they started anew."""
        self._waiting: set[str] = set()
        self._random = random.Random(self.seed)
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-reference-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def change(
        self,
        topology: Topology,
        *,
        allow_state_loss: bool = False,
        sources: Mapping[str, Decision] | None = None,
    ) -> ChangePlan:
        """Go on with another version of the topology, as a running one would: from the next epoch on.

        If state has to change its hop, one more epoch runs the present version and exports it.
        """
        running = self._next.program if self._next else self.program
        desired = plan(topology)
        hops = max(running.hops, desired.hops) if self.hops is None else self.hops
        version = self.version + 1
        change = plan_change(running, desired, version=version, hops=hops, sources=sources)
        require_applicable(change, allow_state_loss=allow_state_loss)
        self.topology, self.version, self._next = topology, change.version, change
        self._anew += [name for name, _ in change.sources.anew]
        if not moves_between(self.program, change.program):
            self._take_over()
        return change

    def _take_over(self) -> None:
        """Go on with the next version; state that changes its hop has left the old one."""
        assert self._next is not None
        old, self.program, self._next = self.program, self._next.program, None
        for name in self._anew:
            self._forget_source(name)
        self._anew.clear()
        moves = moves_between(old, self.program)
        copies = {}
        for name in (*moves.moved, *moves.discarded):
            for slice_ in range(old.graph[name].parallelism):
                left = (old.depth[name], name, slice_)
                self._held.pop(left, None)
                shelf, copies[name, slice_] = self._shelves.pop(left, MemoryShelf()), BytesIO()
                write_log(shelf, copies[name, slice_])
        for name in moves.moved:
            for slice_ in range(self.program.graph[name].parallelism):
                place = (self.program.depth[name], name, slice_)
                read_log(copies[name, slice_], self._shelves.setdefault(place, MemoryShelf()))

    def _forget_source(self, name: str) -> None:
        """Drop the offset of a source that starts anew, with its promise."""
        self._offsets.pop(name, None)
        promised = {other: time for other, time in self._punctuations.sources.items() if other != name}
        quiet_since = {other: at for other, at in self._punctuations.quiet_since.items() if other != name}
        self._punctuations = replace(self._punctuations, sources=promised, quiet_since=quiet_since)
        if name in self.counters.observed:
            self._seen_before[f"{name}@{self.version}"] = self.counters.observed.pop(name)

    def step(self, cut: Epoch | None = None) -> bool:
        """Run one epoch. False if there was nothing to run."""
        cut = cut or Epoch()
        begun, before = set(self._offsets), self._punctuations
        observed = {**self._seen_before, **self.counters.observed}
        self._punctuations = reopened(self.program, before, begun, observed)
        self._waiting = must_wait(self.program, before, self._punctuations, begun)
        ranges = {name: self._range(name, cut) for name in self.program.sources}
        punctuations = self._next_punctuations(ranges)
        moved = punctuations.moved_since(before)
        if all(start == end for start, end in ranges.values()) and not moved and self._next is None:
            return False
        self._run_epoch(ranges, cut, punctuations, moved)
        self._offsets.update({name: end for name, (_, end) in ranges.items()})
        self._punctuations = punctuations
        if self._next is not None:
            self._take_over()
        self.epoch += 1
        return True

    def drain(self, cut: Epoch | None = None) -> None:
        """Run epochs until the sources have nothing left."""
        while self.step(cut):
            pass

    def result(self) -> dict[str, pl.DataFrame]:
        """What each sink has got so far."""
        inputs = {name: self.program.graph[name].inputs[0] for name in self.program.sinks}
        return {
            name: pl.concat(
                [empty(self.program.input_schema(edge)), *self.outputs.get(name, [])], how="diagonal_relaxed"
            )
            for name, edge in inputs.items()
        }

    def shelf_of(self, node: Node, slice_: int) -> MemoryShelf:
        """Return the log of a slice's state in the hop where its node stands."""
        return self._shelves.get((self.program.depth[node.name], node.name, slice_), MemoryShelf())

    def letters(self) -> pl.DataFrame:
        """The records that were put aside."""
        return pl.DataFrame(self.dead_letters, schema=to_polars(DEAD_LETTERS))

    def _planner(self, name: str) -> SourcePlanner:
        key = (self.program.source_key(name), self.program.graph[name].logic)
        if key not in self._planners:
            folder = self._folder / key[0]
            folder.mkdir(exist_ok=True)
            self._planners[key] = self.program.sources[name].source.planner(folder)
        return self._planners[key]

    def _range(self, name: str, cut: Epoch) -> tuple[Offset, Offset]:
        planner = self._planner(name)
        start = self._offsets.setdefault(name, planner.initial())
        if name in self._waiting:
            return start, start
        spec = self.program.sources[name]
        rows, most_bytes = spec.limits
        return start, planner.latest(start, Limit(cut.rows or rows, most_bytes))

    def _next_punctuations(self, ranges: Mapping[str, tuple[Offset, Offset]]) -> Punctuations:
        standings = {
            name: Standing.of(
                self._planner(name), start, end, self.counters.observed.get(name), self._bound(name)
            )
            for name, (start, end) in ranges.items()
        }
        return self._punctuations.after(self.program, standings, self.now_ns)

    def _bound(self, name: str) -> int | None:
        if self.today is None:
            return None
        return bound_of(self.program.sources[name].source, as_us(self.today) * 1000)

    def _run_epoch(
        self,
        ranges: Mapping[str, tuple[Offset, Offset]],
        cut: Epoch,
        punctuations: Punctuations,
        moved: Mapping[str, int],
    ) -> None:
        boundary = Boundary(self.epoch, None)
        parcels, reached = list[Parcel](), list[Reached]()
        for name, (start, end) in ranges.items():
            read, told = self._read(name, (start, end), cut, punctuations, boundary)
            parcels += read
            reached += told
        for level in range(self.program.hops + 1):
            if level:
                parcels = self._hop(level, parcels, moved, reached, boundary)
            for node in self.program.natives:
                if self.program.depth[node.name] == level:
                    parcels = self._native(node, parcels, boundary)
        for parcel in sorted(parcels, key=lambda p: (p.source, p.sequence)):
            edge = self.program.graph[parcel.node].inputs[0]
            rows = decode(parcel.payload, self.program.input_schema(edge))
            self.outputs.setdefault(parcel.node, []).append(rows)
        self.dead_letters += boundary.letters

    def _read(
        self,
        name: str,
        range_: tuple[Offset, Offset],
        cut: Epoch,
        punctuations: Punctuations,
        boundary: Boundary,
    ) -> tuple[list[Parcel], list[Reached]]:
        source = self.program.sources[name].source
        parcels: list[Parcel] = []
        start = reached(source, punctuations.observed.get(name))
        bound, wants = punctuations.bounds.get(name), bool(self.program.wants_watermarks(name))
        told: list[Reached] = []
        for number, split in enumerate(self._planner(name).splits(*range_, cut.splits)):
            times = SplitTimes(name, source, bound, self.counters, boundary, wants)
            outbox = Outbox(name, number % 120, boundary)
            for batch in source.read(split, _rejecter(name, boundary)):
                flow = Flow(self.program, boundary, self.counters)
                flow.push(name, OUT, times.look(batch))
                parcels += outbox.add(flow.take(), batch.position)
            parcels += outbox.flush()
            told.append(Reached(name, split.position, times.reached))
        return [replace(p, watermark=later(p.watermark, start)) for p in parcels], told

    def _hop(
        self,
        level: int,
        parcels: list[Parcel],
        punctuations: Mapping[str, int],
        reached: list[Reached],
        boundary: Boundary,
    ) -> list[Parcel]:
        here = {n.name: n for n in self.program.hosted.values() if self.program.depth[n.name] == level}
        going_on = [p for p in parcels if p.node not in here]
        groups: dict[tuple[str, int], list[Parcel]] = {}
        for parcel in parcels:
            if parcel.node in here:
                groups.setdefault((parcel.node, parcel.slice), []).append(parcel)
        for name in [name for name in here if name in punctuations]:
            for slice_ in range(here[name].parallelism):
                groups.setdefault((name, slice_), [])
        for (name, slice_), group in self._in_some_order(groups.items()):
            at = (punctuations.get(name), reached)
            going_on += self._run_slice(here[name], slice_, group, at, boundary)
        return going_on

    def _run_slice(
        self,
        node: Node,
        slice_: int,
        group: list[Parcel],
        at: tuple[int | None, list[Reached]],
        boundary: Boundary,
    ) -> Iterable[Parcel]:
        key = (self.program.depth[node.name], node.name, slice_)
        sent = self._in_some_order(group)
        arrivals = [Arrival(p.input, p.source, p.sequence, p.payload, p.watermark) for p in sent]
        departures, held = SliceRun(self.program, node, slice_, boundary, self.counters).run(
            arrivals, at[0], self._shelves.setdefault(key, MemoryShelf()), self._held.pop(key, None), at[1]
        )
        if held is not None and self.keep_decoded:
            self._held[key] = held
        outbox = Outbox(f"{node.name}#{slice_:05d}", slice_, boundary)
        return [parcel for parcels in outbox.stream(departures) for parcel in parcels]

    def _native(self, node: Node, parcels: list[Parcel], boundary: Boundary) -> list[Parcel]:
        spec: specs.DataFrameSpec = node.spec  # type: ignore[assignment]
        if spec.twin is None:
            raise BadArgument(
                where=f"node '{node.name}' ({node.site})",
                what="twin",
                got="None",
                allowed="a Polars function that does the same: the reference engine has no Spark",
            )
        mine = sorted((p for p in parcels if p.node == node.name), key=lambda p: (p.source, p.sequence))
        schema = self.program.input_schema(node.inputs[0])
        rows = pl.concat([empty(schema), *(decode(p.payload, schema) for p in mine)])
        flow = Flow(self.program, boundary, self.counters)
        flow.push(node.name, OUT, emitted(node, OUT, spec.twin(rows), spec.returns))
        outbox = Outbox(node.name, 0, boundary)
        made: list[Parcel] = [*outbox.add(flow.take(), 0), *outbox.flush()]
        return [*(p for p in parcels if p.node != node.name), *made]

    def _in_some_order(self, items: Iterable[Any]) -> list[Any]:
        ordered = list(items)
        if self.seed is not None:
            self._random.shuffle(ordered)
        return ordered


def run(
    topology: Topology,
    *,
    epochs: Iterable[Epoch | int] | None = None,
    rows_per_epoch: int | None = None,
    seed: int | None = None,
) -> dict[str, pl.DataFrame]:
    """Run a topology to the end of its sources and give what each sink got.

    ``epochs`` cuts the first epochs as told (a number is a number of rows); what is left after
    them is read in epochs of ``rows_per_epoch``.
    """
    reference = ReferenceRun(topology, seed=seed)
    for cut in epochs or ():
        reference.step(Epoch(cut) if isinstance(cut, int) else cut)
    reference.drain(Epoch(rows_per_epoch))
    return reference.result()


def _rejecter(source: str, boundary: Boundary) -> Callable[[BadRecord], None]:
    return lambda bad: boundary.reject(source, bad.position, bad.where, bad.raw, bad.reason)
