"""One slice of one node in one epoch: its frames in order, the operator, the state."""

from __future__ import annotations

import copy
import datetime as dt
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.engine.counters import Counters
from penstock.engine.flow import Departure, Flow
from penstock.engine.slice_state import Held, open_state, save_state
from penstock.engine.state_log import Shelf
from penstock.errors import BadEmission, PenstockError
from penstock.frames.frame import decode_all
from penstock.operators.boundary import Boundary, emitted
from penstock.operators.operator import Operator
from penstock.plan.program import Program
from penstock.topology import specs
from penstock.topology.graph import Node
from penstock.topology.schema import Schema

BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class Arrival:
    """Encoded rows for an input of a slice, which takes them in the order of ``Program.arrival_order``."""

    input: str
    source: str
    sequence: int
    payload: bytes | pa.Buffer


class Emitter:
    """Collects what an operator emits, checked against what was declared."""

    def __init__(self, node: Node, program: Program) -> None:
        self._node = node
        self._program = program
        self.made: list[tuple[str, pl.DataFrame]] = []

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
        self.made.append((output, emitted(self._node, output, rows, schema)))


@dataclass(slots=True)
class SliceRun:
    """Carries a hosted node out for one slice and epoch."""

    program: Program
    node: Node
    slice: int
    boundary: Boundary
    counters: Counters

    def run(
        self, arrivals: Sequence[Arrival], punctuation: int | None, shelf: Shelf, held: Held | None
    ) -> tuple[list[Departure], Held | None]:
        """Take what arrived, then the punctuation; save the state; give what leaves."""
        batches = list(self._batches(arrivals))
        if not isinstance(self.node.spec, specs.ProcessSpec):
            return self._stateless(batches), None
        for _, batch in batches:
            self.counters.took(self.node.name, batch.height)
        began = time.perf_counter()
        held, made = self._process(batches, punctuation, shelf, held)
        with self._failures():
            save_state(held, shelf, stagger=self.slice)
        self.counters.was_busy(self.node.name, time.perf_counter() - began)
        return self._behind(made), held

    def _stateless(self, batches: list[tuple[str, pl.DataFrame]]) -> list[Departure]:
        flow = Flow(self.program, self.boundary, self.counters)
        for _, batch in batches:
            flow.enter(self.node, batch)
        return flow.take()

    def _behind(self, made: list[tuple[str, pl.DataFrame]]) -> list[Departure]:
        flow = Flow(self.program, self.boundary, self.counters)
        for output, rows in _joined(made):
            if late := self._operator.late_events(output, rows):
                self.counters.was_late(self.node.name, late)
            flow.push(self.node.name, output, rows)
        return flow.take()

    def _process(
        self,
        batches: list[tuple[str, pl.DataFrame]],
        punctuation: int | None,
        shelf: Shelf,
        held: Held | None,
    ) -> tuple[Held, list[tuple[str, pl.DataFrame]]]:
        born = self.program.born.get(self.node.name, 0)
        with self._failures():
            held = open_state(self.node, self.slice, born, shelf, held)
        emit = Emitter(self.node, self.program)
        take = self._take if self.boundary.trial is None else self._take_with_care
        try:
            for input_, batch in batches:
                take(held, input_, batch, emit)
        except PenstockError:
            raise
        except Exception as error:
            if self.node.on_error == "stop":
                raise self.boundary.failure(self.node, batch, error) from error
            # The failed batch may have changed the state half: begin again from the log, with care.
            held = open_state(self.node, self.slice, born, shelf, None)
            emit = Emitter(self.node, self.program)
            for input_, batch in batches:
                self._take_with_care(held, input_, batch, emit)
        if punctuation is not None:
            self._punctuate(held, punctuation, emit)
        return held, emit.made

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
            emit.made += trial.made

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

    def _batches(self, arrivals: Sequence[Arrival]) -> Iterator[tuple[str, pl.DataFrame]]:
        """Arrivals in order, as few batches as their inputs allow.

        How frames were cut on the way must not show in what an operator sees.
        """
        name, order = self.node.name, self.program.arrival_order
        ordered = sorted(arrivals, key=lambda a: (order(name, a.input, a.source), a.sequence))
        for input_, group in groupby(ordered, key=lambda a: a.input):
            schema = self.program.input_schema(self.program.edge_into(self.node.name, input_))
            rows = decode_all([arrival.payload for arrival in group], schema)
            for first in range(0, rows.height, BATCH_ROWS):
                yield input_, rows[first : first + BATCH_ROWS]

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


def _joined(made: list[tuple[str, pl.DataFrame]]) -> Iterator[tuple[str, Any]]:
    """What was emitted on each output as one frame."""
    for output in dict.fromkeys(output for output, _ in made):
        yield output, pl.concat([rows for name, rows in made if name == output], rechunk=True)
