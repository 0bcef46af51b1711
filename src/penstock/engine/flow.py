"""Runs what is fused behind an entry, and collects what leaves for other nodes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import polars as pl

from penstock.engine.counters import Counters
from penstock.engine.watermarks import evaluated, with_any, with_watermarks, without
from penstock.operators.boundary import Boundary, emitted
from penstock.operators.event_time import WATERMARK
from penstock.plan.program import Program
from penstock.topology.graph import OUT, Edge, Node


@dataclass(frozen=True, slots=True)
class Departure:
    """Rows that leave a fused part over an edge."""

    target: Node
    edge: Edge
    rows: pl.DataFrame
    is_late: bool = False
    """Whether all of them are late for the node that they lead to."""


@dataclass(slots=True)
class Flow:
    """One task's way through the fused part behind an entry."""

    program: Program
    boundary: Boundary
    counters: Counters
    departures: list[Departure] = field(default_factory=list)

    def push(self, node: str, output: str, rows: pl.DataFrame) -> None:
        """Lead rows that a node emitted through all that is fused behind it."""
        if not rows.height:
            return
        self.counters.gave(node, rows.height)
        for consumer, edge in self.program.graph.consumers(node):
            if edge.output != output:
                continue
            some = rows if consumer.name in self.program.watermarked else without(rows)
            if self.program.is_fused(consumer):
                self.enter(consumer, some)
            else:
                self._leave(consumer, edge, some)

    def _leave(self, consumer: Node, edge: Edge, rows: pl.DataFrame) -> None:
        if consumer.name in self.program.watermarked and not self.program.judges(consumer):
            self.departures.append(Departure(consumer, edge, with_any(rows)))
            return
        if WATERMARK in rows.columns:
            watermarks, rows = rows[WATERMARK].to_numpy(), without(rows)
            late = pl.Series(consumer.spec.operator.is_late(edge.input, rows, watermarks))  # type: ignore[attr-defined]
            if late.any():
                self.departures.append(Departure(consumer, edge, rows.filter(late), is_late=True))
                rows = rows.filter(~late)
        if rows.height:
            self.departures.append(Departure(consumer, edge, rows))

    def enter(self, node: Node, rows: pl.DataFrame) -> None:
        """Carry a stateless node out and go on behind it."""
        began = time.perf_counter()
        schema = self.program.schemas[node.name, OUT]

        def work(batch: pl.DataFrame) -> list[pl.DataFrame]:
            made = evaluated(node.spec, batch)
            return [with_watermarks(emitted(node, OUT, frame, schema), marks) for frame, marks in made]

        self.counters.took(node.name, rows.height)
        made = [frame for frames in self.boundary.run(node, rows, work) for frame in frames]
        self.counters.was_busy(node.name, time.perf_counter() - began)
        for frame in made:
            self.push(node.name, OUT, frame)

    def take(self) -> list[Departure]:
        """What has left so far; forgets it."""
        taken, self.departures = self.departures, []
        return taken
