"""Sources and sinks that come to the points at which faults happen, and otherwise do what they always did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connect.sink import Sink, SinkContext, SinkWriter
from penstock.connect.source import (
    Backlog,
    Batch,
    Identity,
    Limit,
    Offset,
    Reject,
    Source,
    SourcePlanner,
    Split,
)
from penstock.operators.keyed import KeyedTable
from penstock.operators.operator import Operator
from penstock.testing.chaos.faults import reach, reaching
from penstock.topology import specs
from penstock.topology.graph import Graph, Node
from penstock.topology.schema import Schema
from penstock.topology.stream import Topology

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl


def with_points(topology: Topology, faults: Path) -> Topology:
    """The same topology, whose sources and sinks look for faults in a folder."""
    nodes = [_node_with_points(node, str(faults)) for node in topology.graph]
    return Topology(topology.name, Graph.of(topology.name, nodes))


def _node_with_points(node: Node, faults: str) -> Node:
    if isinstance(node.spec, specs.SourceSpec):
        return replace(node, spec=replace(node.spec, source=WatchedSource(node.spec.source, faults)))
    if isinstance(node.spec, specs.SinkSpec):
        return replace(node, spec=replace(node.spec, sink=WatchedSink(node.spec.sink, faults)))
    if isinstance(node.spec, specs.ProcessSpec):
        return replace(node, spec=replace(node.spec, operator=_watched_operator(node.spec.operator, faults)))
    return node


def _watched_operator(operator: Operator, faults: str) -> Operator:
    """Return the same operator, whose KeyedTables come to a point when they are saved."""

    def init_state(self: Operator) -> Any:
        state = type(operator).init_state(self)
        for part in state.values() if isinstance(state, dict) else [state]:
            if type(part) is KeyedTable:
                part.__class__ = WatchedTable
                part.__dict__["faults"] = faults
        return state

    kind = type(type(operator).__name__, (type(operator),), {"init_state": init_state})
    watched: Operator = object.__new__(kind)
    watched.__dict__.update(vars(operator))
    return watched


class WatchedTable(KeyedTable):
    """A table in which faults happen when it is saved."""

    faults: str

    def export_delta(self) -> bytes:
        reach(Path(self.faults), "saving")
        return super().export_delta()

    def export_base(self) -> bytes:
        reach(Path(self.faults), "saving")
        return super().export_base()


@dataclass(frozen=True, slots=True)
class WatchedSource(Source):
    """A source in which faults happen."""

    inner: Source
    faults: str

    @property
    def schema(self) -> Schema:
        return self.inner.schema

    @property
    def time(self) -> str | None:
        return self.inner.time

    @property
    def lateness_us(self) -> int | None:
        return self.inner.lateness_us

    @property
    def knows_watermarks(self) -> bool:
        return self.inner.knows_watermarks

    def watermarks(self, position: int, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        return self.inner.watermarks(position, times_us)

    @property
    def ahead_us(self) -> int | None:
        return self.inner.ahead_us

    @property
    def has_end(self) -> bool:
        return self.inner.has_end

    @property
    def identity(self) -> Identity:
        return self.inner.identity

    def undated(self, rows: pl.DataFrame, impossible: pl.Series) -> pl.DataFrame | None:
        return self.inner.undated(rows, impossible)

    def planner(self, state_dir: Path) -> SourcePlanner:
        return WatchedPlanner(self.inner.planner(state_dir), Path(self.faults))

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        for batch in self.inner.read(split, reject):
            yield batch
            reach(Path(self.faults), "reading")

    def describe(self) -> str:
        return self.inner.describe()


class WatchedPlanner(SourcePlanner):
    """The planner of such a source."""

    def __init__(self, inner: SourcePlanner, faults: Path) -> None:
        self._inner = inner
        self._faults = faults
        self.foresees = inner.foresees

    def initial(self) -> Offset:
        return self._inner.initial()

    def backlog(self, offset: Offset) -> Backlog:
        return self._inner.backlog(offset)

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        return self._inner.punctuation(offset, observed)

    def finished(self, offset: Offset) -> bool:
        return self._inner.finished(offset)

    def latest(self, start: Offset, limit: Limit) -> Offset:
        end = self._inner.latest(start, limit)
        if end != start:
            reach(self._faults, "planning")
        return end

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        reach(self._faults, "after-offsets")
        return self._inner.splits(start, end, parallelism)

    def commit(self, end: Offset) -> None:
        reach(self._faults, "after-commit")
        self._inner.commit(end)


@dataclass(frozen=True, slots=True)
class WatchedSink(Sink):
    """A sink in which faults happen."""

    inner: Sink
    faults: str

    @property
    def place(self) -> Path | None:
        return self.inner.place

    def open(self, context: SinkContext) -> SinkWriter:
        return WatchedWriter(self.inner.open(context), Path(self.faults))

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        reach(Path(self.faults), "before-sink")
        with reaching(Path(self.faults), "in-commit", below=Path(self.faults).parent):
            self.inner.commit(context, messages)
        reach(Path(self.faults), "after-sink")

    def describe(self) -> str:
        return self.inner.describe()


class WatchedWriter(SinkWriter):
    """The writer of such a sink."""

    def __init__(self, inner: SinkWriter, faults: Path) -> None:
        self._inner = inner
        self._faults = faults

    def write(self, df: pl.DataFrame) -> None:
        half = df.height // 2
        self._inner.write(df[:half])
        reach(self._faults, "in-write")
        self._inner.write(df[half:])

    def close(self) -> Any:
        answer = self._inner.close()
        reach(self._faults, "written")
        return answer

    def abort(self) -> None:
        self._inner.abort()
