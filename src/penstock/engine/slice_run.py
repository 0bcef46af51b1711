"""One slice of one node in one epoch: its frames in order, the operator, the state."""

from __future__ import annotations

import copy
import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.counters import Counters
from penstock.engine.emissions import Emissions
from penstock.engine.flow import Departure, Flow
from penstock.engine.slice_state import Held, open_state, save_state
from penstock.engine.state_log import Shelf
from penstock.engine.watermarks import Reached, Starts, at_least, later, only_if_any
from penstock.errors import BadEmission, PenstockError
from penstock.frames.frame import decode_all
from penstock.operators.boundary import Boundary, emitted
from penstock.operators.event_time import NEVER, WATERMARK
from penstock.operators.operator import Operator
from penstock.plan.program import Program
from penstock.topology import specs
from penstock.topology.graph import Node
from penstock.topology.schema import Schema

BATCH_ROWS = 1 << 20
Take = Callable[[Held, str, pl.DataFrame, "Emitter"], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Encoded rows for an input of a slice, which takes them in the order of ``Program.arrival_order``."""

    input: str
    source: str
    sequence: int
    payload: bytes | pa.Buffer
    watermark: int | None = None
    """That of all its rows, as far as the sender knew it; the end of time: all of them are late."""


class Taken(NamedTuple):
    """Rows of an input, as the operator takes them."""

    input: str
    rows: pl.DataFrame
    late_from: str | None = None
    """The sender, if all of them are late."""


class Emitter:
    """Collects what an operator emits, checked against what was declared."""

    def __init__(self, node: Node, program: Program) -> None:
        self._node = node
        self._program = program
        self.made = Emissions()
        self.rejected: list[tuple[pl.DataFrame, pl.Series]] = []
        """Rows that were put aside, and why; dead letters once the epoch's work is done."""

    def __call__(self, rows: pl.DataFrame) -> None:
        self.to("out", rows)

    def columns(self, output: str = "out") -> Schema:
        return self._program.schemas[self._node.name, output]

    def to(self, output: str, rows: pl.DataFrame) -> None:
        schema = self._program.schemas.get((self._node.name, output))
        if schema is None:
            known = ", ".join(self._node.spec.output_names())
            raise BadEmission(
                node=self._node.name, site=str(self._node.site), output=output, got="rows", expected=known
            )
        self.made.append(output, emitted(self._node, output, rows, schema))

    def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None:
        self.rejected.append((rows, reasons))


@dataclass(slots=True)
class SliceRun:
    """Carries a hosted node out for one slice and epoch."""

    program: Program
    node: Node
    slice: int
    boundary: Boundary
    counters: Counters

    def run(
        self,
        arrivals: Sequence[Arrival],
        punctuation: int | None,
        shelf: Shelf,
        held: Held | None,
        reached: Iterable[Reached] = (),
    ) -> tuple[Iterable[Departure], Held | None]:
        """Take what arrived, then the punctuation; save the state; give what leaves.

        ``reached`` says how far the splits of the epoch have come whose rows are among the arrivals. What is
        fused behind the node runs as its rows are asked for: large outputs are never whole in memory.
        """
        with self._failures():
            batches = list(self._batches(arrivals, Starts(reached)))
        if not isinstance(self.node.spec, specs.ProcessSpec):
            return self._stateless(batches), None
        for taken in batches:
            self.counters.took(self.node.name, taken.rows.height)
            self._count_late(taken)
        began = time.perf_counter()
        held, made = self._process(batches, punctuation, shelf, held)
        with self._failures():
            save_state(held, shelf, stagger=self.slice)
        self.counters.was_busy(self.node.name, time.perf_counter() - began)
        return self._behind(made), held

    def _stateless(self, batches: list[Taken]) -> list[Departure]:
        flow = Flow(self.program, self.boundary, self.counters)
        for taken in batches:
            flow.enter(self.node, taken.rows)
        return flow.take()

    def _count_late(self, taken: Taken) -> None:
        """Count late rows for their source, if this node is the one that does."""
        source = self.program.late_source(self.node.name, taken.late_from) if taken.late_from else None
        if source is not None:
            aside = Emitter(self.node, self.program)
            self._operator.put_aside(taken.input, taken.rows, aside)
            events = sum(self._operator.late_events(output, rows) for output, rows in aside.made)
            self.counters.was_late(source, events)

    def _behind(self, made: Emissions) -> Iterator[Departure]:
        flow = Flow(self.program, self.boundary, self.counters)
        for output, rows in made.chunks():
            if late := self._operator.late_events(output, rows):
                self.counters.was_late(self.node.name, late)
            flow.push(self.node.name, output, rows)
            yield from flow.take()

    def _process(
        self,
        batches: list[Taken],
        punctuation: int | None,
        shelf: Shelf,
        held: Held | None,
    ) -> tuple[Held, Emissions]:
        born = self.program.born.get(self.node.name, 0)
        with self._failures():
            held = open_state(self.node, self.slice, born, shelf, held)
        emit = Emitter(self.node, self.program)
        take = self._take if self.boundary.trial is None else self._take_with_care
        try:
            for taken in batches:
                self._enter(taken, held, emit, take)
        except PenstockError:
            raise
        except Exception as error:
            if self.node.on_error == "stop":
                raise self.boundary.failure(self.node, taken.rows, error) from error
            # The failed batch may have changed the state half: begin again from the log, with care.
            held = open_state(self.node, self.slice, born, shelf, None)
            emit = Emitter(self.node, self.program)
            for taken in batches:
                self._enter(taken, held, emit, self._take_with_care)
        if punctuation is not None:
            self._punctuate(held, punctuation, emit)
        for rows, reasons in emit.rejected:
            self.boundary.put_aside(self.node, rows, reasons)
        return held, emit.made

    def _enter(self, taken: Taken, held: Held, emit: Emitter, take: Take) -> None:
        if taken.late_from is None:
            take(held, taken.input, taken.rows, emit)
        else:
            self._operator.put_aside(taken.input, taken.rows, emit)

    def _take(self, held: Held, input_: str, batch: pl.DataFrame, emit: Emitter) -> None:
        returned = self._operator.process_input(input_, batch, held.state, emit)
        if returned is not None:
            held.state = returned

    def _take_with_care(self, held: Held, input_: str, batch: pl.DataFrame, emit: Emitter) -> None:
        """Like ``_take``, but records that fail leave no trace in the state or the output."""

        def work(part: pl.DataFrame) -> None:
            before, trial = copy.deepcopy(held.state), Emitter(self.node, self.program)
            try:
                self._take(held, input_, part, trial)
            except Exception:
                held.state = before
                raise
            emit.made.extend(trial.made)
            emit.rejected += trial.rejected

        self.boundary.run(self.node, batch, work)

    def _punctuate(self, held: Held, punctuation: int, emit: Emitter) -> None:
        with self._failures():
            returned = self._operator.on_punctuation(as_datetime(punctuation), held.state, emit)
        if returned is not None:
            held.state = returned

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """The user's code that works on no batch: its exceptions get an address too."""
        try:
            yield
        except PenstockError:
            raise
        except Exception as error:
            raise self.boundary.failure(self.node, None, error) from error

    def _batches(self, arrivals: Sequence[Arrival], starts: Starts) -> Iterator[Taken]:
        """Arrivals in order, as few batches as their inputs allow; of each input those last that are late.

        How frames were cut on the way must not show in what an operator sees.
        """
        name, order = self.node.name, self.program.arrival_order
        ordered = sorted(
            arrivals, key=lambda a: (order(name, a.input, a.source), a.sequence, a.watermark or NEVER)
        )
        for input_, group in groupby(ordered, key=lambda a: a.input):
            rows, late = self._judged(input_, list(group), starts)
            for first in range(0, rows.height, BATCH_ROWS):
                yield Taken(input_, rows[first : first + BATCH_ROWS])
            yield from (Taken(input_, some, sender) for sender, some in late)

    def _judged(
        self, input_: str, arrivals: list[Arrival], starts: Starts
    ) -> tuple[pl.DataFrame, list[tuple[str, pl.DataFrame]]]:
        """The rows of an input that are in time, and by sender those that are late."""
        schema = self.program.input_schema(self.program.edge_into(self.node.name, input_))
        if self.node.name not in self.program.watermarked:
            return decode_all([arrival.payload for arrival in arrivals], schema), []
        judges, parts, late = self.program.judges(self.node), list[pl.DataFrame](), list[tuple[str, Any]]()
        if not judges:
            schema = Schema((*schema.columns, (WATERMARK, "int64")))

        def place(arrival: Arrival) -> tuple[str, int | None]:
            start = starts.of(arrival.source.partition("|")[0], arrival.sequence)
            return arrival.source, later(arrival.watermark, start)

        for (sender, watermark), group in groupby(arrivals, key=place):
            rows = decode_all([arrival.payload for arrival in group], schema)
            if not judges:
                parts.append(at_least(rows, watermark))
                continue
            if watermark is not None:
                is_late = pl.Series(self._operator.is_late(input_, rows, watermark))
                if is_late.any():
                    late.append((sender, rows.filter(is_late)))
                    rows = rows.filter(~is_late)
            parts.append(rows)
        whole = pl.concat(parts, rechunk=True)
        return whole if judges else only_if_any(whole), late

    @property
    def _operator(self) -> Operator:
        operator: Operator = self.node.spec.operator  # type: ignore[attr-defined]
        return operator


def as_datetime(time_us: int) -> dt.datetime:
    """Microseconds since 1970 as a datetime in UTC, without a zone."""
    try:
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=time_us)
    except OverflowError:
        return dt.datetime.max if time_us > 0 else dt.datetime.min
