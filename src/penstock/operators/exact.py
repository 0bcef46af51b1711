"""Aggregates of floats that are the same in any order: they are added up exactly and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.frames._jit import readonly
from penstock.operators import _exact_kernels as kernels
from penstock.operators.aggregates import Aggregate, Parts

EXACT = "exact"
"""The part that holds an exact sum; partials that have it are of floats."""
_PACKED = pl.List(pl.Int64)
Words = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ExactSum(Aggregate):
    """See ``sum``."""

    column: str

    def parts(self, time: pl.Expr) -> Parts:
        return {EXACT: _values(self.column)}

    def merge(self, part: Parts) -> Parts:
        return {EXACT: part[EXACT].explode(empty_as_null=False)}

    def settle(self, part: Parts) -> Parts:
        return {EXACT: packed(part[EXACT])}

    def settle_merged(self, part: Parts) -> Parts:
        return {EXACT: packed(part[EXACT], kernels.sum_packed)}

    def result(self, part: Parts) -> pl.Expr:
        return nearest(part[EXACT])


@dataclass(frozen=True)
class ExactMean(ExactSum):
    """See ``mean``."""

    def parts(self, time: pl.Expr) -> Parts:
        return {**super().parts(time), "count": pl.col(self.column).count().cast(pl.Int64)}

    def merge(self, part: Parts) -> Parts:
        return {**super().merge(part), "count": part["count"].sum()}

    def result(self, part: Parts) -> pl.Expr:
        return pl.when(part["count"] > 0).then(nearest(part[EXACT]) / part["count"])


@dataclass(frozen=True)
class Variance(ExactMean):
    """See ``variance``. From the exact sums of values and squares, so no digit is lost far from zero."""

    sums: ClassVar[str] = ""
    ddof: int

    def parts(self, time: pl.Expr) -> Parts:
        return {**super().parts(time), "squares": _values(self.column)}

    def merge(self, part: Parts) -> Parts:
        return {**super().merge(part), "squares": part["squares"].explode(empty_as_null=False)}

    def settle(self, part: Parts) -> Parts:
        return {**super().settle(part), "squares": packed(part["squares"], kernels.sum_squares)}

    def settle_merged(self, part: Parts) -> Parts:
        return {**super().settle_merged(part), "squares": packed(part["squares"], kernels.sum_packed)}

    def result(self, part: Parts) -> pl.Expr:
        count = part["count"]
        apart = pl.map_batches(
            [part[EXACT], part["squares"], count], _apart, return_dtype=pl.Float64(), is_elementwise=True
        )
        return pl.when(count > self.ddof).then(apart / count / (count - self.ddof))


def packed(lists: pl.Expr, add: Callable[..., int] = kernels.sum_floats) -> pl.Expr:
    """Lists of floats, or of exact sums one after the other → the exact sum of each list."""
    return lists.map_batches(partial(_packed, add), return_dtype=_PACKED, is_elementwise=True)


def nearest(sums: pl.Expr) -> pl.Expr:
    """Exact sums → the floats nearest to them."""
    return sums.map_batches(_nearest, return_dtype=pl.Float64(), is_elementwise=True)


def _values(column: str) -> pl.Expr:
    return pl.col(column).drop_nulls()


def _packed(add: Callable[..., int], lists: pl.Series) -> pl.Series:
    """The sums, in as much room as they turn out to need."""
    if add is not kernels.sum_packed:
        lists, add = _added_up(lists, add)
    (values, offsets), groups = _lists(lists), len(lists)
    out, ends = np.empty(6 * groups + kernels.MOST, np.int64), np.zeros(groups + 1, np.int64)
    done = add(values, offsets, 0, out, ends)
    while done < groups:
        out = np.concatenate([out[: ends[done]], np.empty(len(out) + kernels.MOST, np.int64)])
        done = add(values, offsets, done, out, ends)
    words = pa.Array.from_buffers(pa.int64(), int(ends[-1]), [None, pa.py_buffer(out)])
    return pl.Series(lists.name, pa.LargeListArray.from_arrays(pa.array(ends), words), dtype=_PACKED)


def _added_up(lists: pl.Series, add: Callable[..., int]) -> tuple[pl.Series, Callable[..., int]]:
    """Return lists of 64-bit numbers and the kernel for them: floats do not hold all integers."""
    inner: Any = lists.dtype.inner  # type: ignore[attr-defined]
    if not inner.is_integer():
        return lists.cast(pl.List(pl.Float64)), add
    wide = pl.UInt64() if inner == pl.UInt64 else pl.Int64()
    return lists.cast(pl.List(wide)), _OF_INTEGERS[add]


_OF_INTEGERS: dict[Callable[..., int], Callable[..., int]] = {
    kernels.sum_floats: kernels.sum_integers,
    kernels.sum_squares: kernels.sum_integer_squares,
}


def _nearest(sums: pl.Series) -> pl.Series:
    out = np.empty(len(sums))
    kernels.round_packed(*_lists(sums), out)
    return pl.Series(sums.name, out)


def _apart(columns: Sequence[pl.Series]) -> pl.Series:
    sums, squares, counts = columns
    out = np.empty(len(sums))
    kernels.apart(*_lists(sums), *_lists(squares), readonly(counts.fill_null(0).to_numpy()), out)
    return pl.Series(sums.name, out)


def _lists(lists: pl.Series) -> tuple[npt.NDArray[Any], Words]:
    """What all lists hold, and where each begins."""
    array = lists.rechunk().to_arrow()
    offsets = np.asarray(array.offsets).astype(np.int64)
    return readonly(array.values.to_numpy(zero_copy_only=False)), readonly(offsets)
