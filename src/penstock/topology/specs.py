"""What each kind of node does, as plain values. How it is done is in ``penstock.operators``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.topology.graph import OUT, Spec
from penstock.topology.routes import words
from penstock.topology.schema import Schema


def _told(connector: Any) -> str:
    """What a source or sink says of itself; the plan refuses what is neither."""
    return str(connector.describe()) if hasattr(connector, "describe") else type(connector).__name__


EPOCH_BYTES = 256 << 20
"""What one epoch takes of a source without limits."""


@dataclass(frozen=True)
class SourceSpec(Spec):
    """Reads events; at most so many rows and bytes go into one epoch.

    Without either, `EPOCH_BYTES` is the limit; 0 bytes stand for no limit.
    """

    kind: ClassVar[str] = "source"
    source: Any
    rows_per_epoch: int | None = None
    bytes_per_epoch: int | None = None
    idle_us: int | None = None
    """Time without anything new after which the source is not waited for."""

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """Return how many rows and bytes one epoch takes at most; None where there is no limit."""
        if self.rows_per_epoch is None and self.bytes_per_epoch is None:
            return None, EPOCH_BYTES
        return self.rows_per_epoch, self.bytes_per_epoch or None

    def describe(self) -> str:
        return f"source {_told(self.source)}"


@dataclass(frozen=True)
class MapSpec(Spec):
    """Each row becomes one row."""

    kind: ClassVar[str] = "map"
    function: Callable[[Any], Any]
    returns: Schema | None = None

    def describe(self) -> str:
        return f"map {words(self.function)}"


@dataclass(frozen=True)
class FlatMapSpec(Spec):
    """Each row becomes any number of rows."""

    kind: ClassVar[str] = "flat_map"
    function: Callable[[Any], Any]
    returns: Schema | None = None

    def describe(self) -> str:
        return f"flat_map {words(self.function)}"


@dataclass(frozen=True)
class FilterSpec(Spec):
    """Some rows stay: a Polars expression, or DataFrame in and booleans out."""

    kind: ClassVar[str] = "filter"
    keep: Any

    def describe(self) -> str:
        return f"filter {words(self.keep)}"


@dataclass(frozen=True)
class UnionSpec(Spec):
    """Rows of several streams with the same columns become one stream."""

    kind: ClassVar[str] = "union"


@dataclass(frozen=True)
class ProcessSpec(Spec):
    """A user's operator with state per slice."""

    kind: ClassVar[str] = "process"
    operator: Any
    returns: Schema | None = None
    outputs: tuple[tuple[str, Schema], ...] = ()

    def describe(self) -> str:
        return f"process {type(self.operator).__name__}"

    def output_names(self) -> tuple[str, ...]:
        return (OUT, *(name for name, _ in self.outputs))


@dataclass(frozen=True)
class DataFrameSpec(Spec):
    """A native Spark DataFrame in, another one out."""

    kind: ClassVar[str] = "dataframe"
    function: Callable[[Any], Any]
    returns: Schema
    twin: Callable[[Any], Any] | None = None
    """The same in Polars, for the reference engine."""

    def describe(self) -> str:
        return f"dataframe {words(self.function)}"


@dataclass(frozen=True)
class SinkSpec(Spec):
    """Writes what arrives, once per epoch."""

    kind: ClassVar[str] = "sink"
    sink: Any

    def describe(self) -> str:
        return f"sink {_told(self.sink)}"

    def output_names(self) -> tuple[str, ...]:
        return ()


STATELESS = (MapSpec, FlatMapSpec, FilterSpec, UnionSpec)
"""Run inside whatever worker their input is in, unless an exchange leads to them."""
