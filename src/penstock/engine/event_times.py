"""What the times of events are looked at for when a split is read: how far time has come, and which are none.

An event that is too far ahead of the clock says nothing of the time: its clock was wrong, or its bytes are.
If it counted, all that come after it would be late until the clock has come as far.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock.connect.source import EARLIEST, LATEST, Batch, Source
from penstock.engine.counters import Counters
from penstock.engine.watermarks import with_watermarks
from penstock.operators.boundary import Boundary, as_json
from penstock.operators.event_time import NEVER, Mask, Times

_EPOCH = dt.datetime(1970, 1, 1)


def reached(source: Source, greatest: int | None) -> int | None:
    """Return how far the greatest time takes a source's watermark; None: its rows know it, or nobody does."""
    if greatest is None or source.time is None or source.lateness_us is None or source.knows_watermarks:
        return None
    return greatest - source.lateness_us


@dataclass(slots=True)
class SplitTimes:
    """Looks at the event times of a split, batch by batch in their order."""

    name: str
    """Of the source."""
    source: Source
    bound: int | None
    """The latest time that an event may have in the epoch that the split is part of."""
    counters: Counters
    boundary: Boundary
    wants_watermarks: bool = False
    """Whether rows that lie behind earlier ones, by more than the lateness, take their watermark along."""
    greatest: int | None = None
    """Of the times so far."""

    def look(self, batch: Batch) -> pl.DataFrame:
        """Note the times of a batch; return its rows without impossible times."""
        rows = batch.rows
        if self.source.time is None:
            return rows
        numbers = _numbers(rows, self.source.time)
        latest = LATEST if self.bound is None else self.bound
        earliest_here, latest_here = _ends(numbers)
        if earliest_here is None:
            return rows
        told = self._told(batch.position, numbers)
        if earliest_here < EARLIEST or latest_here > latest:
            impossible = ((numbers < EARLIEST) | (numbers > latest)).fill_null(value=False)
            rows = self._undated(rows, impossible, latest)
            if rows.height == len(numbers):
                numbers = numbers.set(impossible, None)
            else:
                numbers = numbers.filter(~impossible)
                told = None if told is None else told[~impossible.to_numpy()]
        return self._with_watermarks(rows, numbers, told)

    @property
    def reached(self) -> int | None:
        """How far the rows so far take the source's watermark; None: not at all, or nobody asks."""
        return None if self.greatest is None else reached(self.source, self.greatest)

    def _told(self, position: int, numbers: pl.Series) -> Times | None:
        """What the source itself says of the watermarks."""
        if not self.wants_watermarks:
            return None
        return self.source.watermarks(position, numbers.fill_null(NEVER).to_numpy())

    def _with_watermarks(self, rows: pl.DataFrame, numbers: pl.Series, told: Times | None) -> pl.DataFrame:
        latest_here: Any = numbers.max()
        if latest_here is None:
            return rows
        before, self.greatest = (
            self.greatest,
            latest_here if self.greatest is None else max(latest_here, self.greatest),
        )
        self.counters.saw(self.name, latest_here)
        if not self.wants_watermarks or (told is None and self.source.lateness_us is None):
            return rows
        behind, marks = _behind(numbers, told, before, self.source.lateness_us or 0)
        if not behind.any():
            return rows
        return with_watermarks(rows, pl.Series(np.where(behind, marks, NEVER)))

    def _undated(self, rows: pl.DataFrame, impossible: pl.Series, latest: int) -> pl.DataFrame:
        kept = self.source.undated(rows, impossible)
        if kept is not None:
            return kept
        time = self.source.time or ""
        for row in rows.filter(impossible).iter_slices(1):
            reason = _reason(int(_numbers(row, time).item()), latest)
            # A batch knows the position of its first row only, and where it begins depends on the splits.
            self.boundary.reject(self.name, -1, time, as_json(row), reason)
        return rows.filter(~impossible)


def _behind(
    numbers: pl.Series, told: Times | None, before: int | None, lateness_us: int
) -> tuple[Mask, Times]:
    """Return which rows lie behind their watermark, and the watermarks."""
    has_nulls = bool(numbers.null_count())
    moments = (numbers.fill_null(NEVER) if has_nulls else numbers).to_numpy()
    if told is None:
        so_far = np.empty(len(moments) + 1, np.int64)
        so_far[0], so_far[1:] = NEVER if before is None else before, moments
        np.maximum.accumulate(so_far, out=so_far)
        told = so_far[:-1]
        told -= lateness_us
    behind = moments < told
    return (behind & (moments != NEVER) if has_nulls else behind), told


def _numbers(rows: pl.DataFrame, time: str) -> pl.Series:
    return rows[time].cast(pl.Datetime("us")).to_physical()


def _ends(numbers: pl.Series) -> tuple[Any, Any]:
    """The least and the greatest; None and None if there are none."""
    return numbers.min(), numbers.max()


def _reason(time_us: int, latest: int) -> str:
    if not EARLIEST <= time_us <= LATEST:
        return f"its time, {time_us} µs since 1970, lies outside of the years 1 to 9998"
    return (
        f"its time {_told(time_us)} is too far ahead of the clock: the epoch takes them up to {_told(latest)}"
    )


def _told(time_us: int) -> str:
    return str(_EPOCH + dt.timedelta(microseconds=time_us))
