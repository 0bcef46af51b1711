"""When rows of a table may be over: a wheel of buckets by deadline, so that expiry costs what expires."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.operators.event_time import as_us
from penstock.operators.keyed import KeyedTable

Rows = npt.NDArray[np.int64]
_BUCKETS = 64


class Deadlines:
    """An index over a KeyedTable: each row waits in the bucket of a time at which it may be over.

    A row that has lived on is found when its bucket is due and entered again: a row costs one look per
    ``span``, and a punctuation what is due. Holds nothing that the table does not hold, so what is saved is
    only *that* it changed: after an import, and when the table may have renumbered its rows, it is stale
    and is filled from the table when it is next used.
    """

    def __init__(self, span_us: int) -> None:
        self._width = max(1, span_us // _BUCKETS)
        self._buckets: dict[int, list[Rows]] = defaultdict(list)
        self.is_stale = False
        self._is_changed = False

    def enter(self, rows: Rows, deadlines_us: npt.NDArray[np.int64]) -> None:
        """Let rows wait until their deadlines; a stale index finds them when it is filled."""
        if not len(rows):
            return
        self._is_changed = True
        if self.is_stale:
            return
        bucket = deadlines_us // self._width
        order = np.argsort(bucket, kind="stable")
        numbers, starts = np.unique(bucket[order], return_index=True)
        rows, ends = rows[order], [*starts[1:].tolist(), len(rows)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            self._buckets[number].append(rows[start:end])

    def refill(self, rows: Rows, deadlines_us: npt.NDArray[np.int64]) -> None:
        """Put these rows in the place of all."""
        changed, self.is_stale = self._is_changed, False
        self._buckets.clear()
        self.enter(rows, deadlines_us)
        self._is_changed = changed

    def due(self, time_us: int | None) -> Rows:
        """Take out the rows that may have a deadline before this time; all if there is none."""
        numbers = [n for n in self._buckets if time_us is None or n * self._width < time_us]
        parts = [part for number in numbers for part in self._buckets.pop(number)]
        if not parts:
            return np.empty(0, np.int64)
        self._is_changed = True
        return np.sort(np.concatenate(parts))

    @property
    def is_changed(self) -> bool:
        """Whether a copy that has not seen this is out of date."""
        return self._is_changed

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return sum(part.nbytes for parts in self._buckets.values() for part in parts)

    def frame(self) -> pl.DataFrame:
        """What the table does not hold: nothing."""
        return pl.DataFrame()

    def export_base(self) -> bytes:
        """Nothing; the table renumbers its rows in a base."""
        self.is_stale, self._is_changed = True, False
        return b""

    def export_delta(self) -> bytes:
        """Nothing, which makes other copies stale."""
        self._is_changed = False
        return b""

    def apply(self, blob: bytes) -> None:
        """Take over an export of the table."""
        self._buckets.clear()
        self.is_stale, self._is_changed = True, False


def expired(
    table: KeyedTable, deadlines: Deadlines, time: dt.datetime, *, key: Sequence[str], last: str, span_us: int
) -> Rows:
    """The rows that are over at this punctuation, ascending: ``last`` lies a span behind. Others wait on."""
    rows: Rows
    if deadlines.is_stale:
        rows = table.find(table.frame().select(key))
        deadlines.refill(rows, table[last][rows] + span_us)
    if time.year >= 9999:
        return deadlines.due(None)
    now = as_us(time)
    rows = deadlines.due(now)
    is_over = table[last][rows] + span_us < now
    waiting = rows[~is_over]
    deadlines.enter(waiting, table[last][waiting] + span_us)
    ended: Rows = rows[is_over]
    return ended
