"""The first of several rows that say the same within a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from penstock.frames._jit import Column, bounded, kernel, readonly
from penstock.frames.types import of_frame
from penstock.operators.event_time import LATE, as_us, behind, in_order, times, without_late
from penstock.operators.keyed import KeyedTable
from penstock.operators.operator import Emit, Operator
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

WAITING, PASSED, _LAST, _KNOWN = "waiting", "passed", "dedupe.last", "dedupe.known"


@dataclass(frozen=True)
class Dedupe(Operator):
    """Passes a row if none with its key has passed in the time before it, in the order of event time.

    State: the rows from the last punctuation on, and the keys that passed less than ``within`` before it.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}}
    by: tuple[str, ...]
    within_us: int
    time: str

    def init_state(self) -> dict[str, Any]:
        return {WAITING: TimedRows(self.time)}

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, self.time, watermarks)

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        rows = without_late(batch, self.time, state[WAITING].clock, emit)
        if not rows.height:
            emit(rows)
        state[WAITING].append(rows)

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        clock = as_us(time)
        ready, state[WAITING].clock = released(state[WAITING], clock), clock
        if ready is not None:
            self._pass(in_order(ready, self.time), state, emit)
        if PASSED in state:
            over = state[PASSED][_LAST] <= clock - self.within_us
            state[PASSED].remove(np.flatnonzero(over & state[PASSED][_KNOWN]))

    def _pass(self, rows: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        keys = rows.select(self.by)
        if PASSED not in state:
            state[PASSED] = KeyedTable(dict(of_frame(keys).columns), {_LAST: int, _KNOWN: bool})
        passed, passes = state[PASSED], np.zeros(rows.height, np.bool_)
        numbers, moments = passed.rows(keys), readonly(times(rows, self.time))
        first_of_each(numbers, moments, self.within_us, passed[_LAST], passed[_KNOWN], passes)
        emit(rows.filter(pl.Series(passes)))


@bounded("len(keys) == len(moments) == len(passes) and len(last) == len(known)")
@kernel
def first_of_each(
    keys: Column, moments: Column, within: int, last: Column, known: Column, passes: Column
) -> None:
    """Which rows come at least so long after the last of their key that passed."""
    for i in range(len(keys)):
        if not known[keys[i]] or moments[i] - last[keys[i]] >= within:
            passes[i] = True
            known[keys[i]] = True
            last[keys[i]] = moments[i]
