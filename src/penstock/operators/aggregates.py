"""What can be told of the events of a window: each aggregate as parts that can be merged in any order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from penstock.errors import BadArgument

Parts = Mapping[str, pl.Expr]


class Aggregate(ABC):
    """One figure of a window, as Polars expressions.

    Events become parts (``parts``, over the events of a group), parts of the same group become one
    (``merge``), and the figure is made from the parts (``result``, row by row). None of them may depend
    on the order of events.
    """

    combines: ClassVar[bool] = True
    """Whether its parts stay small: they are then made in the sender, before the exchange."""
    sums: ClassVar[str] = ""
    """The attribute that names a column to be added up: its integers are widened first."""

    @abstractmethod
    def parts(self, time: pl.Expr) -> Parts:
        """Named parts of some events of a group; ``time`` is the event time."""

    @abstractmethod
    def merge(self, part: Parts) -> Parts:
        """The parts of all, from the parts of some."""

    def settle(self, part: Parts) -> Parts:
        """Parts that need more than Polars can do per group, from what ``parts`` gave, row by row."""
        return {}

    def settle_merged(self, part: Parts) -> Parts:
        """The same from what ``merge`` gave."""
        return {}

    def exact(self) -> Aggregate:
        """What takes its place for a column of floats, so that their order does not show."""
        return self

    def adopt(self, part: Parts) -> Parts:
        """Return parts that states of earlier releases do not have, made from those that they have."""
        return {}

    def misfits(self, parts: pl.DataFrame) -> pl.Series | None:
        """Return why rows of parts give no figure, null where they give one; None if all of them do.

        Such a row becomes a dead letter. A sum that its column's type cannot hold is the case in point.
        """
        return None

    @abstractmethod
    def result(self, part: Parts) -> pl.Expr:
        """The figure."""


@dataclass(frozen=True)
class _Plain(Aggregate):
    """One part that is merged in the way it is made, and is the figure."""

    column: str

    def parts(self, time: pl.Expr) -> Parts:
        return {"of": self.one(pl.col(self.column))}

    def merge(self, part: Parts) -> Parts:
        return {"of": self.one(part["of"])}

    def result(self, part: Parts) -> pl.Expr:
        return part["of"]

    @abstractmethod
    def one(self, values: pl.Expr) -> pl.Expr:
        """One value of several."""


class Sum(_Plain):
    """See ``sum``."""

    sums: ClassVar[str] = "column"

    def one(self, values: pl.Expr) -> pl.Expr:
        return values.sum()

    def parts(self, time: pl.Expr) -> Parts:
        return {**super().parts(time), "high": pl.lit(0, pl.Int64)}

    def merge(self, part: Parts) -> Parts:
        return {**super().merge(part), "high": part["high"].sum()}

    def settle(self, part: Parts) -> Parts:
        return self.adopt(part)

    def settle_merged(self, part: Parts) -> Parts:
        from penstock.operators.integer_sums import settled_high

        return {"high": settled_high(part["of"], part["high"])}

    def adopt(self, part: Parts) -> Parts:
        from penstock.operators.integer_sums import high_of

        return {"high": high_of(part["of"])}

    def result(self, part: Parts) -> pl.Expr:
        from penstock.operators.integer_sums import fitting

        return pl.when(fitting(part["of"], part["high"])).then(part["of"])

    def misfits(self, parts: pl.DataFrame) -> pl.Series | None:
        from penstock.operators.integer_sums import reasons

        return reasons(self.column, parts["of"], parts["high"])

    def exact(self) -> Aggregate:
        from penstock.operators.exact import ExactSum

        return ExactSum(self.column)


class Min(_Plain):
    """See ``min``."""

    def one(self, values: pl.Expr) -> pl.Expr:
        return values.min()


class Max(_Plain):
    """See ``max``."""

    def one(self, values: pl.Expr) -> pl.Expr:
        return values.max()


@dataclass(frozen=True)
class Count(Aggregate):
    """See ``count``."""

    column: str | None

    def parts(self, time: pl.Expr) -> Parts:
        number = pl.len() if self.column is None else pl.col(self.column).count()
        return {"of": number.cast(pl.Int64)}

    def merge(self, part: Parts) -> Parts:
        return {"of": part["of"].sum()}

    def result(self, part: Parts) -> pl.Expr:
        return part["of"]


@dataclass(frozen=True)
class Mean(Aggregate):
    """See ``mean``."""

    sums: ClassVar[str] = "column"
    column: str

    def parts(self, time: pl.Expr) -> Parts:
        values = pl.col(self.column)
        count = values.count().cast(pl.Int64)
        return {"sum": values.sum(), "count": count, "high": pl.lit(0, pl.Int64)}

    def merge(self, part: Parts) -> Parts:
        return {name: part[name].sum() for name in ("sum", "count", "high")}

    def settle(self, part: Parts) -> Parts:
        return self.adopt(part)

    def settle_merged(self, part: Parts) -> Parts:
        from penstock.operators.integer_sums import settled_high

        return {"high": settled_high(part["sum"], part["high"])}

    def adopt(self, part: Parts) -> Parts:
        from penstock.operators.integer_sums import high_of

        return {"high": high_of(part["sum"])}

    def result(self, part: Parts) -> pl.Expr:
        from penstock.operators.integer_sums import as_floats, fitting

        fits, large = fitting(part["sum"], part["high"]), as_floats(part["sum"], part["high"])
        mean = pl.when(fits).then(part["sum"] / part["count"]).otherwise(large / part["count"])
        return pl.when(part["count"] > 0).then(mean)

    def exact(self) -> Aggregate:
        from penstock.operators.exact import ExactMean

        return ExactMean(self.column)


@dataclass(frozen=True)
class Quantile(Aggregate):
    """See ``quantile``."""

    combines: ClassVar[bool] = False  # keeps every value: sending lists of them saves nothing
    column: str
    q: float

    def parts(self, time: pl.Expr) -> Parts:
        return {"values": pl.col(self.column).drop_nulls()}

    def merge(self, part: Parts) -> Parts:
        return {"values": part["values"].explode(empty_as_null=False)}

    def result(self, part: Parts) -> pl.Expr:
        inner = pl.element().cast(pl.Float64).quantile(self.q, "linear")
        return part["values"].list.eval(inner).list.first()


@dataclass(frozen=True)
class Distinct(Aggregate):
    """See ``distinct``."""

    column: str

    def parts(self, time: pl.Expr) -> Parts:
        return {"values": pl.col(self.column).drop_nulls().unique(maintain_order=True)}

    def merge(self, part: Parts) -> Parts:
        return {"values": part["values"].explode(empty_as_null=False).unique(maintain_order=True)}

    def result(self, part: Parts) -> pl.Expr:
        return part["values"].list.len().cast(pl.Int64)


@dataclass(frozen=True)
class AtEnd(Aggregate):
    """See ``first`` and ``last``."""

    column: str
    is_last: bool

    def parts(self, time: pl.Expr) -> Parts:
        return self._outermost(time, pl.col(self.column))

    def merge(self, part: Parts) -> Parts:
        return self._outermost(part["at"], part["value"])

    def _outermost(self, at: pl.Expr, value: pl.Expr) -> Parts:
        end = at.max() if self.is_last else at.min()
        there = value.filter(at == end)
        # Events of the same time: the greatest, or the least, of their values, whoever came first.
        return {"at": end, "value": there.max() if self.is_last else there.min()}

    def result(self, part: Parts) -> pl.Expr:
        return part["value"]


@dataclass(frozen=True)
class Top(Aggregate):
    """See ``top``."""

    column: str
    k: int

    def parts(self, time: pl.Expr) -> Parts:
        return {"values": self._greatest(pl.col(self.column))}

    def merge(self, part: Parts) -> Parts:
        return {"values": self._greatest(part["values"].explode(empty_as_null=False))}

    def _greatest(self, values: pl.Expr) -> pl.Expr:
        return values.drop_nulls().sort(descending=True).head(self.k)

    def result(self, part: Parts) -> pl.Expr:
        return part["values"]


def count(column: str | None = None) -> Aggregate:
    """How many events there are; with a column, how many have a value in it."""
    return Count(column)


def sum(column: str) -> Aggregate:
    """Add a column up exactly; a sum of floats is rounded once.

    A window whose sum of integers or durations does not fit their type becomes a dead letter, which tells
    the sum.
    """
    return Sum(column)


def min(column: str) -> Aggregate:
    """The least value of a column."""
    return Min(column)


def max(column: str) -> Aggregate:
    """The greatest value of a column."""
    return Max(column)


def mean(column: str) -> Aggregate:
    """The mean of a column, from its exact sum; null if no event has a value."""
    return Mean(column)


def variance(column: str, *, ddof: int = 1) -> Aggregate:
    """The variance of a column: of a sample, or of everything with ``ddof=0``."""
    from penstock.operators.exact import Variance

    return Variance(column, ddof)


def quantile(column: str, q: float) -> Aggregate:
    """The exact quantile of a column, between two values in proportion. Keeps every value until the end."""
    if not 0 <= q <= 1:
        raise BadArgument(where="quantile", what="q", got=q, allowed="0 to 1")
    return Quantile(column, q)


def distinct(column: str) -> Aggregate:
    """The exact number of different values in a column. Keeps each of them until the end."""
    return Distinct(column)


def first(column: str) -> Aggregate:
    """The value of the earliest event; of several at that time the least."""
    return AtEnd(column, is_last=False)


def last(column: str) -> Aggregate:
    """The value of the latest event; of several at that time the greatest."""
    return AtEnd(column, is_last=True)


def top(column: str, k: int) -> Aggregate:
    """The ``k`` greatest values of a column, as a list that begins with the greatest."""
    if k < 1:
        raise BadArgument(where="top", what="k", got=k, allowed="1 or more")
    return Top(column, k)
