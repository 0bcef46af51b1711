"""How rows find the slice of the node that an edge leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def words(function: Any) -> str:
    """A short name of a function, expression or object for people."""
    if hasattr(function, "meta"):  # a Polars expression says best itself what it does
        text = str(function).replace("dyn int: ", "").replace("dyn float: ", "")
        return text if len(text) <= 60 else f"{text[:59]}…"
    name = getattr(function, "__qualname__", None) or getattr(
        getattr(function, "function", None), "__qualname__", None
    )
    if name is None:
        return type(function).__name__
    return "λ" if "<lambda>" in name else str(name).rpartition("<locals>.")[2]


@dataclass(frozen=True, slots=True)
class Route:
    """The root of the routes; an edge without one stays in the same worker."""

    def describe(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True, slots=True)
class KeyBy(Route):
    """Rows with equal values in these columns meet in the same slice."""

    columns: tuple[str, ...]

    def describe(self) -> str:
        return f"key by {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True)
class Shuffle(Route):
    """Rows are dealt out evenly, or in proportion to the weights of the slices."""

    weights: tuple[float, ...] | None = None

    def describe(self) -> str:
        return "shuffle" if self.weights is None else f"shuffle {':'.join(f'{w:g}' for w in self.weights)}"


@dataclass(frozen=True, slots=True)
class Broadcast(Route):
    """Every slice gets every row; the payload is serialised once."""


@dataclass(frozen=True, slots=True)
class ToOne(Route):
    """One slice gets every row."""

    def describe(self) -> str:
        return "to one"


@dataclass(frozen=True, slots=True)
class PartitionBy(Route):
    """The user's function names the slice of each row: DataFrame in, integers out."""

    function: Callable[[Any], Any]

    def describe(self) -> str:
        return f"partition by {words(self.function)}"
