"""Stand-ins for the parts of a version that this Python cannot load. They can be compared, and cannot run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.connect.source import Identity
from penstock.control.version_record import NodeRecord
from penstock.operators.operator import Operator
from penstock.topology import specs
from penstock.topology.graph import OUT, Spec
from penstock.topology.routes import Route
from penstock.topology.schema import Schema


@dataclass(frozen=True, slots=True)
class UnknownRoute(Route):
    """A route whose function is not the one at hand."""

    what: str
    exact: str | None

    def describe(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class _Unknown:
    """Code that differs from the one at hand and cannot be loaded; it equals nothing else."""

    what: str
    exact: str | None

    def describe(self) -> str:
        return self.what


class _UnknownSource(_Unknown):
    """A source that cannot be loaded: what its offsets refer to is not known."""

    __slots__ = ()

    @property
    def identity(self) -> Identity:
        return Identity("", self.what)


class _UnknownOperator(Operator):
    """What a plan of changes asks of an operator that cannot be loaded."""

    def __init__(self, record: NodeRecord) -> None:
        self.state_version = record.state_version or 1  # type: ignore[misc]
        self.what = record.what
        self.exact = record.exact

    def process(self, batch: Any, state: Any, emit: Any) -> Any:
        raise NotImplementedError(f"{self.what} cannot be loaded by this Python")


class _UnknownExporting(_UnknownOperator):
    """The same for one that exports its state."""

    def export_state(self, state: Any) -> bytes:
        raise NotImplementedError


def stand_in(record: NodeRecord) -> Spec:
    unknown: Any = _Unknown(record.what, record.exact)
    kinds: dict[str, Callable[[], Spec]] = {
        "source": lambda: specs.SourceSpec(_UnknownSource(record.what, record.exact)),
        "map": lambda: specs.MapSpec(unknown),
        "flat_map": lambda: specs.FlatMapSpec(unknown),
        "filter": lambda: specs.FilterSpec(unknown),
        "union": specs.UnionSpec,
        "process": lambda: _process(record),
        "dataframe": lambda: specs.DataFrameSpec(unknown, Schema(())),
        "sink": lambda: specs.SinkSpec(unknown),
    }
    return (
        kinds[record.kind]()
        if record.kind in kinds
        else UnknownSpec(record.what, record.exact, record.outputs)
    )


def _process(record: NodeRecord) -> Spec:
    kind = _UnknownExporting if record.exports_state else _UnknownOperator
    outputs = tuple((name, Schema(())) for name in record.outputs if name != OUT)
    return specs.ProcessSpec(kind(record), outputs=outputs)


@dataclass(frozen=True)
class UnknownSpec(Spec):
    """A node of which only words are known."""

    what: str
    exact: str | None
    outputs: tuple[str, ...] = (OUT,)

    def describe(self) -> str:
        return self.what

    def output_names(self) -> tuple[str, ...]:
        return self.outputs
