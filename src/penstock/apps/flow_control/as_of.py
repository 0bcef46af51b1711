"""Rows with what held for their key at their time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

import penstock as ps
from penstock.operators.event_time import LATE, NEVER, as_timestamps, as_us, behind, times, without_late
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

CHANGES, UNKNOWN = "changes", "unknown"
_ROWS, _KNOWN, _PLACE = "rows", "known", "as_of.place"


@dataclass(frozen=True)
class AsOf(ps.Operator):
    """Adds to each row the values of the last change of its key up to its time.

    Takes rows, and on its input ``changes`` rows with ``time``, the key ``on`` and the values ``adds``, all
    of them whole numbers; both keyed by ``on``. Rows wait for the punctuation; a change counts from its time
    on, one that comes late from then on. Of changes at one time the one with the greatest values counts. Rows
    whose key has no value yet go to ``unknown``, those behind the punctuation to ``late``. State: what waits,
    and the values of each key.
    """

    outputs: ClassVar[Mapping[str, Any]] = {UNKNOWN: {}, LATE: {}}
    on: tuple[str, ...]
    adds: tuple[str, ...]

    def init_state(self) -> dict[str, Any]:
        known = ps.KeyedTable(dict.fromkeys(self.on, int), dict.fromkeys(self.adds, int))
        return {_ROWS: TimedRows("time"), CHANGES: TimedRows("time"), _KNOWN: known}

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        """Changes never are: those behind the time count from now on."""
        return behind(rows, "time", watermarks if name != CHANGES else NEVER)

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        self.process_input("in", batch, state, emit)

    def process_input(self, name: str, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        if name == CHANGES:
            if batch.height:
                state[CHANGES].append(self._not_before(state[CHANGES].clock, batch))
            return
        rows = without_late(batch, "time", state[_ROWS].clock, emit)
        if rows.height:
            state[_ROWS].append(rows)
        elif not batch.height:  # tells the plan the columns
            emit.to(UNKNOWN, rows)
            emit(rows.with_columns(pl.lit(0, pl.Int64).alias(name) for name in self.adds))

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        clock = as_us(time)
        changes, rows = released(state[CHANGES], clock), released(state[_ROWS], clock)
        state[CHANGES].clock = state[_ROWS].clock = clock
        if changes is not None:
            changes = changes.sort("time", *self.adds)
        if rows is not None:
            self._told(rows, changes, state[_KNOWN], emit)
        if changes is not None:
            numbers = state[_KNOWN].rows(changes.select(self.on))
            for name in self.adds:
                state[_KNOWN].last(name, numbers, changes[name])

    def _not_before(self, clock: int, changes: pl.DataFrame) -> pl.DataFrame:
        when = as_timestamps(np.maximum(times(changes, "time"), clock))
        return changes.select(when.alias("time"), *self.on, pl.col(self.adds).cast(pl.Int64))

    def _told(self, rows: pl.DataFrame, changes: pl.DataFrame | None, known: Any, emit: Emit) -> None:
        """Emit rows with the last of these changes before each, else with what was known before."""
        place = known.find(rows.select(self.on))
        is_known = place >= 0
        values = {name: np.where(is_known, known[name][place] if len(known) else 0, 0) for name in self.adds}
        if changes is not None:
            last = self._last_change(rows, changes)
            is_new = last >= 0
            is_known |= is_new
            for name in self.adds:
                values[name][is_new] = changes[name].to_numpy()[last[is_new]]
        mask = pl.Series(is_known)
        emit(rows.with_columns(pl.Series(name, column) for name, column in values.items()).filter(mask))
        if not is_known.all():
            emit.to(UNKNOWN, rows.filter(~mask))

    def _last_change(self, rows: pl.DataFrame, changes: pl.DataFrame) -> Any:
        """The place of the last change up to each row's time; -1 if there is none."""
        placed = changes.select("time", *self.on).with_row_index(_PLACE)
        asked = rows.select("time", *self.on).with_row_index("row").sort("time")
        met = asked.join_asof(
            placed, on="time", by=list(self.on), strategy="backward", check_sortedness=False
        )
        found = np.full(rows.height, -1, np.int64)
        found[met["row"].to_numpy()] = met[_PLACE].cast(pl.Int64).fill_null(-1).to_numpy()
        return found
