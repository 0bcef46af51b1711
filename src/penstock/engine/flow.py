"""Runs what is fused behind an entry, and collects what leaves for other nodes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import polars as pl

from penstock.engine.counters import Counters
from penstock.operators.boundary import Boundary, emitted
from penstock.operators.stateless import EVALUATE
from penstock.plan.program import Program
from penstock.topology.graph import OUT, Edge, Node


@dataclass(frozen=True, slots=True)
class Departure:
    """Rows that leave a fused part over an edge."""

    target: Node
    edge: Edge
    rows: pl.DataFrame


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
            if self.program.is_fused(consumer):
                self.enter(consumer, rows)
            else:
                self.departures.append(Departure(consumer, edge, rows))

    def enter(self, node: Node, rows: pl.DataFrame) -> None:
        """Carry a stateless node out and go on behind it."""
        began = time.perf_counter()
        evaluate, schema = EVALUATE[type(node.spec)], self.program.schemas[node.name, OUT]
        self.counters.took(node.name, rows.height)
        made = self.boundary.run(node, rows, lambda batch: evaluate(node.spec, batch))
        made = [emitted(node, OUT, frame, schema) for frame in made]
        self.counters.was_busy(node.name, time.perf_counter() - began)
        for frame in made:
            self.push(node.name, OUT, frame)

    def take(self) -> list[Departure]:
        """What has left so far; forgets it."""
        taken, self.departures = self.departures, []
        return taken
