"""What operators on event time share: time in µs, the order of events, and what came too late."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.errors import BadArgument
from penstock.operators.operator import Emit

if TYPE_CHECKING:
    from penstock.operators.operator import Watermarks

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
NEVER = -(2**62)
"""Before all time: far from the end of the numbers, so that lengths of time can be taken away."""
LATE = "late"
WATERMARK = "penstock.watermark"
"""The column that rows take along which may be late (see ``engine.watermarks``)."""
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def as_us(time: dt.datetime) -> int:
    """A punctuation in µs since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def times(rows: pl.DataFrame, column: str) -> Times:
    """The event times in µs; NEVER where there is none."""
    found = rows[column]
    if not isinstance(found.dtype, pl.Datetime):
        raise TypeError(f"the time column '{column}' is {found.dtype}, not a timestamp")
    if found.dtype != pl.Datetime("us"):
        found = found.dt.cast_time_unit("us")
    numbers = found.to_physical()
    return (numbers.fill_null(NEVER) if numbers.null_count() else numbers).to_numpy()


def as_timestamps(times_us: Times, name: str = "") -> pl.Series:
    """Times in µs as a column; null for NEVER."""
    column = pl.Series(name, times_us)
    if len(times_us) and times_us.min() == NEVER:
        column = column.replace(NEVER, None)
    return column.cast(pl.Datetime("us"))


def behind(rows: pl.DataFrame, time: str, watermarks: Watermarks) -> Mask:
    """Return which rows lie before their watermark."""
    found: Mask = times(rows, time) < watermarks
    return found


def without_late(
    rows: pl.DataFrame, time: str, clock_us: int, emit: Emit, output: str = LATE
) -> pl.DataFrame:
    """The rows that keep the promise of the last punctuation; the others go to the output ``late``.

    Rows that are late by the watermark of their own position do not come here (see ``Operator.late``). What
    is left are rows without a time, and those of a source that had been idle and was not waited for.
    """
    late = times(rows, time) < max(clock_us, NEVER + 1)
    if not late.any():
        if not rows.height:
            emit.to(output, rows)  # tells the plan the columns
        return rows
    mask = pl.Series(late)
    emit.to(output, rows.filter(mask))
    return rows.filter(~mask)


def in_order(rows: pl.DataFrame, *first: str, descending: Sequence[str] = ()) -> pl.DataFrame:
    """The rows by these columns; ties by all their values, so that the order of arrival never shows."""
    names = [*first, *(name for name in rows.columns if name not in first)]
    return rows.sort(names, descending=[name in descending for name in names], nulls_last=True)


def columns_of(names: str | Sequence[str], *, where: str, what: str) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    found = (names,) if isinstance(names, str) else tuple(names)
    if len(set(found)) != len(found) or not all(isinstance(name, str) for name in found):
        raise BadArgument(where=where, what=what, got=repr(names), allowed="names of columns, each once")
    return found
