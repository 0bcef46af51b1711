"""Figures of every so many events of a group, in the order of event time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from penstock.operators.event_time import LATE, as_us, behind, in_order, without_late
from penstock.operators.operator import Emit, Operator
from penstock.operators.partials import END, START, Figures
from penstock.operators.timed_rows import TimedRows
from penstock.operators.windows import CountWindow

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

_HELD, _PLACE, _SIZE, _WINDOW = (f"count_window.{name}" for name in ("held", "place", "size", "window"))


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
        made = self._figures(rows, complete)
        if made.height:
            emit(made)
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
        figures = self.figures.on(rows.schema)
        made = spread.group_by(keys, maintain_order=True).agg(*ends, *figures.parts(self.time))
        made = made.with_columns(figures.settled(self.time, merged=False))
        return made.select(*figures.by, START, END, *figures.results(self.time))
