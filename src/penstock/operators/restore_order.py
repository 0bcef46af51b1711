"""Events in the order of their time, for consumers that need it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from penstock.operators.event_time import LATE, as_us, behind, in_order, without_late
from penstock.operators.operator import Emit, Operator
from penstock.operators.timed_rows import TimedRows

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks


@dataclass(frozen=True)
class RestoreOrder(Operator):
    """Holds rows until nothing can come before them; rows of equal time leave in the order of their values.

    State: the rows from the last punctuation on.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}}
    time: str

    def init_state(self) -> TimedRows:
        return TimedRows(self.time)

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, self.time, watermarks)

    def process(self, batch: pl.DataFrame, state: TimedRows, emit: Emit) -> None:
        rows = without_late(batch, self.time, state.clock, emit)
        if not rows.height:
            emit(rows)
        state.append(rows)

    def on_punctuation(self, time: dt.datetime, state: TimedRows, emit: Emit) -> None:
        ready, state.clock = released(state, as_us(time)), as_us(time)
        if ready is not None:
            emit(in_order(ready, self.time))


def released(state: TimedRows, bound: int) -> pl.DataFrame | None:
    """Take out the rows below the bound; None if there are none."""
    if not (state.times < bound).any():
        return None
    ready = state.before(bound)
    state.drop_before(bound)
    return ready
