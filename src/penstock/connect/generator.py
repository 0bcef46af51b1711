"""Events made by a function of their number: exact to replay, as fast as the function."""

from __future__ import annotations

import itertools
import time as clock_module
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connect.clocks import to_us, watermarks
from penstock.connect.durations import ahead_of_clock, microseconds
from penstock.connect.source import (
    BATCH_BYTES,
    BATCH_ROWS,
    END_OF_TIME,
    Backlog,
    Batch,
    Identity,
    Limit,
    Offset,
    Reject,
    Source,
    SourcePlanner,
    Split,
    restore_fields,
)
from penstock.errors import BadArgument
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

Make = Callable[[int, int], "pl.DataFrame"]
_WIDTHS = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "float32": 4}
_FIXED = frozenset({"int64", "uint64", "float64", "date", "time", "timestamp", "duration"})


@dataclass(frozen=True, slots=True, init=False)
class Generator(Source):
    """Make events with ``fn(first, count)``, which returns events number first … first+count-1.

    ``fn`` must be pure: the same numbers give the same events. ``rows`` is the total (None: endless),
    ``rate`` releases that many events per second of real time, and what came due while the topology
    was down is made up for. ``time`` names the event time column; ``time_of(n)`` gives the time of
    event n (µs or datetime, never decreasing) and makes punctuation exact; without it punctuation
    trails the greatest time seen by ``lateness``. ``start`` is the number of the first event. ``ahead`` is
    how far times may be ahead of the clock, such as "1h": events beyond that become dead letters and move no
    time. By default they may be anything, since most generators have a time of their own.
    """

    fn: Make
    schema: Schema
    rows: int | None
    rate: float | None
    time: str | None
    time_of: Callable[[int], int | datetime] | None
    lateness_us: int
    start: int
    ahead_us: int | None = None

    def __init__(
        self,
        fn: Make,
        *,
        schema: Schema | Mapping[str, Any],
        rows: int | None = None,
        rate: float | None = None,
        time: str | None = None,
        time_of: Callable[[int], int | datetime] | None = None,
        lateness: str | timedelta = "0s",
        start: int = 0,
        ahead: str | timedelta | None = None,
    ) -> None:
        columns = Schema.of(schema)
        if not callable(fn):
            raise _wrong("fn", fn, "a function fn(first, count) that returns a polars.DataFrame")
        if rows is not None and rows < 0:
            raise _wrong("rows", rows, "None or a number of at least 0")
        if rate is not None and rate <= 0:
            raise _wrong("rate", rate, "None or events per second above 0")
        if start < 0:
            raise _wrong("start", start, "a number of at least 0")
        if time is not None and time not in columns:
            raise _wrong("time", time, f"None or one of {', '.join(columns.names)}")
        values = {
            "fn": fn,
            "schema": columns,
            "rows": rows,
            "rate": rate,
            "time": time,
            "time_of": time_of,
            "lateness_us": microseconds(lateness, where="Generator", what="lateness"),
            "start": start,
            "ahead_us": ahead_of_clock(ahead, where="Generator"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def end(self) -> int | None:
        """The number after the last event, or None."""
        return None if self.rows is None else self.start + self.rows

    @property
    def has_end(self) -> bool:
        """Whether it ends by itself."""
        return self.rows is not None

    @property
    def identity(self) -> Identity:
        """Return the number of the first event: an offset counts events, whatever function makes them."""
        return Identity("Generator", f"events from number {self.start} on")

    def planner(self, state_dir: Path) -> GeneratorPlanner:
        """Make the planner. It keeps everything in its offsets and nothing in ``state_dir``."""
        return GeneratorPlanner(self)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Call the function for the split's numbers, about a million events at a time."""
        first, stop = split.body["first"], split.body["first"] + split.body["count"]
        step = max(1, min(BATCH_ROWS, BATCH_BYTES // _row_bytes(self.schema)))
        for begin in range(first, stop, step):
            yield Batch(begin, self._make(begin, min(step, stop - begin)))

    def _make(self, first: int, count: int) -> pl.DataFrame:
        from penstock.frames.types import conform

        try:
            made = conform(self.fn(first, count), self.schema)
        except ValueError as error:
            raise _broken(first, count, str(error), str(self.schema)) from error
        if made.height != count:
            raise _broken(first, count, f"{made.height} rows", f"exactly {count} rows")
        return made

    __setstate__ = restore_fields

    @property
    def knows_watermarks(self) -> bool:
        """Whether there is a ``time_of``."""
        return self.time_of is not None

    def watermarks(self, position: int, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """Return what ``time_of`` says of each event, less the lateness; None without it."""
        if self.time_of is None:
            return None
        return watermarks(self.time_of, self.lateness_us, position, times_us)

    def describe(self) -> str:
        """One line for people."""
        name = getattr(self.fn, "__name__", type(self.fn).__name__)
        total = "endless" if self.rows is None else f"{self.rows} rows"
        return f"Generator({name}, {total}" + (")" if self.rate is None else f", {self.rate:g}/s)")


class GeneratorPlanner(SourcePlanner):
    """Cuts the numbers; the wall clock paces them when there is a rate."""

    foresees = True

    def __init__(self, source: Generator, clock_ns: Callable[[], int] = clock_module.time_ns) -> None:
        self._source = source
        self._clock_ns = clock_ns
        self._bytes_per_row: float | None = None

    def initial(self) -> Offset:
        # began_ns 0 means "not begun": the first epoch puts the real moment into its end offset, where
        # it is durable. Taking the clock here would give another answer when Spark asks again.
        return {"n": self._source.start, "began_ns": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        began_ns = start["began_ns"] or (self._clock_ns() if self._source.rate else 0)
        due = self._due(began_ns)
        available = BATCH_ROWS if due is None else due - start["n"]
        if limit.rows is not None:
            available = min(available, limit.rows) if due is not None else limit.rows
        if limit.bytes is not None:
            available = min(available, int(limit.bytes / self._width(start["n"])))
        if due is None or due > start["n"]:
            available = max(1, available)
        return {"n": start["n"] + available, "began_ns": began_ns} if available > 0 else start

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        first, count = start["n"], end["n"] - start["n"]
        pieces = max(1, min(parallelism, count))
        cuts = [first + count * i // pieces for i in range(pieces + 1)]
        return [Split(a, {"first": a, "count": b - a}) for a, b in itertools.pairwise(cuts) if b > a]

    def backlog(self, offset: Offset) -> Backlog:
        due = self._due(offset["began_ns"] or self._clock_ns())
        return Backlog(rows=None if due is None else max(0, due - offset["n"]))

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        if self._source.time is None:
            return None
        if self.finished(offset):
            return END_OF_TIME
        if self._source.time_of is not None:
            return to_us(self._source.time_of(offset["n"])) - self._source.lateness_us
        return None if observed is None else observed - self._source.lateness_us

    def finished(self, offset: Offset) -> bool:
        return self._source.end is not None and bool(offset["n"] >= self._source.end)

    def _due(self, began_ns: int) -> int | None:
        """The number up to which events exist by now; None when there is no bound."""
        if self._source.rate is None:
            return self._source.end
        elapsed_ns = max(0, self._clock_ns() - began_ns)
        due = self._source.start + 1 + int(elapsed_ns * self._source.rate / 1e9)
        return due if self._source.end is None else min(due, self._source.end)

    def _width(self, n: int) -> float:
        """Return about how many bytes a row has: by the schema, or by a sample where lengths differ."""
        if self._bytes_per_row is None:
            self._bytes_per_row = float(_row_bytes(self._source.schema))
            if any(kind not in _FIXED and kind not in _WIDTHS for _, kind in self._source.schema.columns):
                self._bytes_per_row = self._sampled(n) or self._bytes_per_row
        return self._bytes_per_row

    def _sampled(self, n: int) -> float | None:
        """Return the bytes per row of a few rows; None if the function fails, which its epoch reports."""
        count = 64 if self._source.end is None else max(1, min(64, self._source.end - n))
        try:
            sample = self._source.fn(n, count)
            return max(1.0, sample.estimated_size() / max(1, sample.height))
        except Exception:  # noqa: BLE001 - it is the user's code, and the epoch gives it its address
            return None


def _row_bytes(schema: Schema) -> int:
    return max(1, sum(_WIDTHS.get(kind, 8 if kind in _FIXED else 64) for _, kind in schema.columns))


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="Generator", what=what, got=repr(got), allowed=allowed)


def _broken(first: int, count: int, got: str, allowed: str) -> BadArgument:
    what = f"what fn({first}, {count}) returned"
    return BadArgument(where="Generator", what=what, got=got, allowed=allowed)
