"""What the times of events are looked at for when a split is read: how far time has come, and which are none.

An event that is too far ahead of the clock says nothing of the time: its clock was wrong, or its bytes are.
If it counted, all that come after it would be late until the clock has come as far.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock.connect.source import EARLIEST, LATEST, Source
from penstock.engine.counters import Counters
from penstock.operators.boundary import Boundary, as_json

_EPOCH = dt.datetime(1970, 1, 1)


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
    promised: int | None = None

    def look(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Note the times of a batch; return its rows without impossible times."""
        if self.source.time is None:
            return rows
        numbers = _numbers(rows, self.source.time)
        latest = LATEST if self.bound is None else self.bound
        earliest_here, latest_here = _ends(numbers)
        if earliest_here is None:
            return rows
        if earliest_here < EARLIEST or latest_here > latest:
            impossible = ((numbers < EARLIEST) | (numbers > latest)).fill_null(value=False)
            rows = self._undated(rows, impossible, latest)
            numbers = numbers.filter(~impossible)
            earliest_here, latest_here = _ends(numbers)
        if earliest_here is not None:
            self.counters.saw(self.name, latest_here)
            if self.promised is not None and earliest_here < self.promised:
                self.counters.was_late(self.name, int((numbers < self.promised).sum()))
        return rows

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
