"""Sums of integers and durations that are exact beyond 64 bits, so that none of them is ever wrong.

A sum has two parts: ``of``, its lowest 64 bits as a number of the column's type, and ``high``, the sum
divided by 2**32 and rounded down. Together they tell every sum below 2**95, which is four billion of the
greatest integers. A sum that fits its column is ``of``; one that does not fit is no figure but a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.operators.aggregates import Aggregate, Mean, Parts, Sum

_HALF = 2**32
_LOW = np.uint64(_HALF - 1)
Numbers = npt.NDArray[np.int64]


class WideSum(Sum):
    """A sum over rows whose values are so large, or so many, that 64 bits may not hold it."""

    def parts(self, time: pl.Expr) -> Parts:
        return {**super().parts(time), "high": _high_sum(self.column)}

    def settle(self, part: Parts) -> Parts:
        return {"high": settled_high(part["of"], part["high"])}


class WideMean(Mean):
    """A mean over rows whose sum 64 bits may not hold."""

    def parts(self, time: pl.Expr) -> Parts:
        return {**super().parts(time), "high": _high_sum(self.column)}

    def settle(self, part: Parts) -> Parts:
        return {"high": settled_high(part["sum"], part["high"])}


class MeanOfDurations(Mean):
    """A mean that is a duration as well; one whose sum does not fit is a dead letter."""

    def result(self, part: Parts) -> pl.Expr:
        fits = fitting(part["sum"], part["high"])
        return pl.when((part["count"] > 0) & fits).then(part["sum"] / part["count"])

    def misfits(self, parts: pl.DataFrame) -> pl.Series | None:
        return reasons(self.column, parts["sum"], parts["high"])


class WideMeanOfDurations(MeanOfDurations, WideMean):
    """The same over rows whose sum 64 bits may not hold."""


WIDE: dict[type[Aggregate], type[Sum] | type[Mean]] = {
    Sum: WideSum,
    Mean: WideMean,
    MeanOfDurations: WideMeanOfDurations,
}
"""What takes the place of an aggregate for rows that ``may_exceed`` says yes to."""


def may_exceed(values: pl.Series) -> bool:
    """Return whether a sum of some of the values may not fit 64 bits."""
    if not (values.dtype.is_integer() or isinstance(values.dtype, pl.Duration)) or not values.len():
        return False
    numbers = values.to_physical()
    bounds = [int(str(bound)) for bound in (numbers.min(), numbers.max()) if bound is not None]
    return max(map(abs, bounds), default=0) * values.len() >= 2**63


def high_of(low_part: pl.Expr) -> pl.Expr:
    """Return the higher part of sums that fit 64 bits."""
    return (low_part.to_physical() // _HALF).cast(pl.Int64)


def settled_high(low_part: pl.Expr, high: pl.Expr) -> pl.Expr:
    """Return the higher part, rounded down, of sums that were added part by part."""
    return pl.map_batches([low_part, high], _settled, return_dtype=pl.Int64(), is_elementwise=True)


def fitting(low_part: pl.Expr, high: pl.Expr) -> pl.Expr:
    """Return whether each sum fits the type of its column."""
    return pl.map_batches([low_part, high], _fits, return_dtype=pl.Boolean(), is_elementwise=True)


def as_floats(low_part: pl.Expr, high: pl.Expr) -> pl.Expr:
    """Return sums of any size as floats."""
    return pl.map_batches([low_part, high], _floats, return_dtype=pl.Float64(), is_elementwise=True)


def reasons(column: str, low_part: pl.Series, high: pl.Series) -> pl.Series | None:
    """Return why a sum is no figure, null where it is one; None if all of them are."""
    fits = _fits([low_part, high])
    if fits.all():
        return None
    words = (_words(low_part) & _LOW).tolist()
    texts = [
        None
        if is_fit
        else f"the sum of '{column}' is {h * _HALF + word}, which does not fit {low_part.dtype}"
        for is_fit, h, word in zip(fits.to_list(), high.to_list(), words, strict=True)
    ]
    return pl.Series(texts, dtype=pl.String)


def _high_sum(column: str) -> pl.Expr:
    return (pl.col(column).to_physical() // _HALF).sum().cast(pl.Int64)


def _words(low_part: pl.Series) -> npt.NDArray[np.uint64]:
    return low_part.to_physical().fill_null(0).to_numpy().astype(np.uint64)


def _settled(columns: Sequence[pl.Series]) -> pl.Series:
    low_part, high = columns
    parts = high.fill_null(0).to_numpy()
    rest = _words(low_part) - (parts.astype(np.uint64) << np.uint64(32))
    return pl.Series(high.name, parts + (rest >> np.uint64(32)).astype(np.int64))


def _fits(columns: Sequence[pl.Series]) -> pl.Series:
    low_part, high = columns
    low, most = (0, _HALF - 1) if low_part.dtype.is_unsigned_integer() else (-(2**31), 2**31 - 1)
    return high.is_between(low, most)


def _floats(columns: Sequence[pl.Series]) -> pl.Series:
    low_part, high = columns
    words = (_words(low_part) & _LOW).astype(np.float64)
    return pl.Series(high.name, high.to_numpy().astype(np.float64) * _HALF + words)
