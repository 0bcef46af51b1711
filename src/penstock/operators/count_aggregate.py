"""Figures of every so many events of a group, in the order of event time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.operators.event_time import LATE, as_us, behind, in_order, without_late
from penstock.operators.operator import Emit, Operator
from penstock.operators.partials import END, START, Figures, emit_figures
from penstock.operators.ranges import Ranges, merged_ranges
from penstock.operators.timed_rows import TimedRows
from penstock.operators.windows import CountWindow

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

_HELD, _PLACE, _SIZE, _WINDOW, _GROUP = (
    f"count_window.{name}" for name in ("held", "place", "size", "window", "group")
)
_FEW_WINDOWS = 8
"""Events that lie in at most so many windows are added up window by window: it is faster."""
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CountAggregate(Operator):
    """Holds events until nothing can come before them, then counts them off in windows.

    State: the events that are still to come into a window of their group.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}}
    figures: Figures
    window: CountWindow
    time: str

    def init_state(self) -> TimedRows:
        return TimedRows(self.time)

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, self.time, watermarks)

    def process(self, batch: pl.DataFrame, state: TimedRows, emit: Emit) -> None:
        rows = without_late(batch, self.time, state.clock, emit)
        if not rows.height:
            empty = rows.with_columns(pl.lit(0, pl.Int64).alias(_PLACE))
            emit(self._figures(empty, np.empty(0, np.int64)))
        state.append(rows)

    def on_punctuation(self, time: dt.datetime, state: TimedRows, emit: Emit) -> None:
        state.clock = as_us(time)
        ready = state.times < state.clock
        if not ready.any():
            return
        rows, held = self._placed(state, ready)
        sizes = rows[_SIZE].to_numpy()
        complete = np.maximum((sizes - self.window.length) // self.window.every + 1, 0)
        for made in self._windows(rows, complete):
            emit_figures(made, emit)
        gone = np.zeros(len(state), np.bool_)
        gone[held[rows[_PLACE].to_numpy() < complete * self.window.every]] = True
        state.drop(gone)

    def _placed(self, state: TimedRows, ready: Any) -> tuple[pl.DataFrame, Any]:
        """The events that are complete, by time, with their place in their group; and where they are held."""
        held = pl.Series(_HELD, np.flatnonzero(ready))
        rows = state.frame().filter(pl.Series(ready)).with_columns(held)
        rows = in_order(rows, self.time, *(c for c in rows.columns if c not in (self.time, _HELD)))
        numbers = [pl.int_range(pl.len()).alias(_PLACE), pl.len().cast(pl.Int64).alias(_SIZE)]
        rows = rows.with_columns(n.over(self.figures.by) if self.figures.by else n for n in numbers)
        return rows.drop(_HELD), rows[_HELD].to_numpy()

    def _windows(self, rows: pl.DataFrame, complete: Numbers) -> Iterator[pl.DataFrame]:
        """Yield the figures of the complete windows; ``complete`` is as for ``_figures``."""
        if self.window.length <= _FEW_WINDOWS * self.window.every:
            yield self._figures(rows, complete)
            return
        groups = pl.col(_GROUP).min().over(self.figures.by) if self.figures.by else pl.lit(0).alias(_GROUP)
        numbers = rows.with_row_index(_GROUP).with_columns(groups).select(_GROUP, _PLACE)
        order = np.lexsort((numbers[_PLACE].to_numpy(), numbers[_GROUP].to_numpy()))
        rows, place = rows[order], rows[_PLACE].to_numpy()[order]
        begins = (place % self.window.every == 0) & (place // self.window.every < complete[order])
        firsts = np.flatnonzero(begins)
        figures = self.figures.on(rows.schema)
        parts = self._parts(rows)
        for first, some in merged_ranges(
            parts, Ranges(firsts, firsts + self.window.length), figures, self.time
        ):
            found = firsts[first : first + some.height]
            ends = [rows[self.time][found], rows[self.time][found + self.window.length - 1]]
            bounds = [ends[0].alias(START), ends[1].alias(END)]
            keys = [rows[name][found] for name in self.figures.by]
            made = figures.figured(some, self.time).with_columns(keys)
            yield made.with_columns(bounds).select(
                *self.figures.by, START, END, pl.exclude(*self.figures.by, START, END)
            )

    def _parts(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the parts of each event by itself."""
        wide = self.figures.widened(rows)
        figures = self.figures.on(rows.schema).for_rows(wide)
        alone = wide.with_columns(pl.int_range(pl.len()).alias(_WINDOW))
        made = alone.group_by(_WINDOW, maintain_order=True).agg(figures.parts(self.time)).drop(_WINDOW)
        return made.with_columns(figures.settled(self.time, merged=False))

    def _figures(self, rows: pl.DataFrame, complete: Any) -> pl.DataFrame:
        """The figures of the complete windows; ``complete`` says how many there are in each row's group."""
        length, every = self.window.length, self.window.every
        place = rows[_PLACE].to_numpy()
        firsts = np.maximum(-((length - 1 - place) // every), 0)
        counts = np.maximum(np.minimum(place // every, complete - 1) - firsts + 1, 0)
        positions = np.repeat(np.arange(rows.height), counts)
        nth = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        spread = self.figures.widened(rows[positions]).with_columns(
            pl.Series(_WINDOW, firsts[positions] + nth)
        )
        ends = [pl.col(self.time).min().alias(START), pl.col(self.time).max().alias(END)]
        keys = [*self.figures.by, _WINDOW]
        figures = self.figures.on(rows.schema).for_rows(spread)
        made = spread.group_by(keys, maintain_order=True).agg(*ends, *figures.parts(self.time))
        made = made.with_columns(figures.settled(self.time, merged=False))
        return made.select(*figures.by, START, END).hstack(figures.figured(made, self.time))
