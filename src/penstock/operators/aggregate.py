"""Figures of the events of each group and window, whatever the order in which the events come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from penstock.errors import BadArgument
from penstock.operators.aggregates import Aggregate
from penstock.operators.event_time import LATE, NEVER, as_us, columns_of, times
from penstock.operators.operator import Emit, Operator
from penstock.operators.partials import EVENTS, START, Combine, Figures
from penstock.operators.timed_rows import TimedRows
from penstock.operators.windows import CountWindow, TimeWindow

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks
    from penstock.topology.stream import Stream

Late = Literal["counted", "kept"]
_WORTHWHILE = 4096  # fewer partials than this are not worth merging before their window closes


@dataclass(frozen=True)
class TimeAggregate(Operator):
    """Merges partials per group and pane; emits a window when no event can come into it any more.

    State: one row per group and pane of the windows that are open, at most twice that between merges.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}}
    combine: Combine
    is_combined: bool
    """Whether the sender has made partials already."""
    late: Late

    def init_state(self) -> TimedRows:
        return TimedRows(START)

    def process(self, batch: pl.DataFrame, state: TimedRows, emit: Emit) -> None:
        made = batch if self.is_combined else self.combine(self._in_time(batch, state, emit))
        if self.late == "counted":
            made = self._counted(made, state, emit)
        if not made.height:
            emit(self.combine.finish(made, times(made, START)))
        state.append(made)
        if len(state) > 2 * max(state.settled, _WORTHWHILE):
            state.replace(self.combine.merge(state.frame()))

    def on_punctuation(self, time: dt.datetime, state: TimedRows, emit: Emit) -> None:
        window, before = self.combine.window, state.clock
        state.clock = as_us(time)
        closed, closed_before = window.last_closed(state.clock), window.last_closed(before)
        if closed == closed_before or not (state.times < closed + window.length_us).any():
            return
        rows = state.before(closed + window.length_us)
        positions, starts = _windows(times(rows, START), window, closed_before, closed)
        if len(starts):
            emit(self.combine.finish(rows if positions is None else rows[positions], starts))
        state.drop_before(closed + window.every_us)

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        if not self.is_combined:
            return self.combine.is_late(rows, watermarks)
        panes = times(rows, START)
        late: Mask = self.combine.window.is_late(panes, watermarks) | (panes == NEVER)
        return late

    def put_aside(self, name: str, rows: pl.DataFrame, emit: Emit) -> None:
        if self.late == "counted":
            made = rows if self.is_combined else self.combine(rows)
            rows = made.select(*self.combine.figures.by, START, EVENTS)
        emit.to(LATE, rows)

    def late_events(self, output: str, rows: pl.DataFrame) -> int:
        is_counted = output == LATE and self.late == "counted"
        return int(rows[EVENTS].sum()) if is_counted else super().late_events(output, rows)

    def _in_time(self, batch: pl.DataFrame, state: TimedRows, emit: Emit) -> pl.DataFrame:
        """With ``late="kept"``, late events leave as they came."""
        if self.late != "kept":
            return batch
        late = self._is_late(times(batch, self.combine.time), state)
        if late.any() or not batch.height:
            emit.to(LATE, batch.filter(late))
        return batch.filter(~late)

    def _counted(self, partials: pl.DataFrame, state: TimedRows, emit: Emit) -> pl.DataFrame:
        late = self._is_late(times(partials, START), state)
        if late.any() or not partials.height:
            emit.to(LATE, partials.filter(late).select(*self.combine.figures.by, START, EVENTS))
        return partials.filter(~late) if late.any() else partials

    def _is_late(self, events: np.ndarray, state: TimedRows) -> pl.Series:
        """Whether a window of the event has been emitted, or it has no time and belongs to none."""
        window = self.combine.window
        return pl.Series(window.is_late(window.pane(events), state.clock) | (events == NEVER))


def _windows(
    panes: np.ndarray, window: TimeWindow, before: int, closed: int
) -> tuple[np.ndarray | None, np.ndarray]:
    """Which pane goes into which window of those that close now; None: each into its own."""
    if window.is_tumbling:
        return None, panes
    firsts = np.maximum(window.first_start(panes), before + window.every_us)
    lasts = np.minimum(window.last_start(panes), closed)
    counts = np.maximum((lasts - firsts) // window.every_us + 1, 0)
    positions = np.repeat(np.arange(len(panes)), counts)
    nth = np.arange(len(positions)) - np.repeat(np.cumsum(counts) - counts, counts)
    return positions, firsts[positions] + nth * window.every_us


def aggregate(
    stream: Stream,
    name: str,
    aggregates: Mapping[str, Aggregate],
    *,
    by: Any,
    window: TimeWindow | CountWindow,
    time: str,
    late: Late,
    parallelism: int | None,
) -> Stream:
    """Lead a stream into an aggregate; see ``Stream.aggregate``."""
    figures = Figures.of(name, columns_of(by, where=f"node '{name}'", what="by"), aggregates)
    if late not in get_args(Late) or not isinstance(window, TimeWindow | CountWindow):
        allowed = "late='counted' or 'kept'; window=ps.tumbling(…), ps.sliding(…) or ps.count_window(…)"
        got = f"late={late!r}, window={window!r}"
        raise BadArgument(where=f"node '{name}'", what="an argument", got=got, allowed=allowed)
    operator: Operator
    if isinstance(window, CountWindow):
        from penstock.operators.count_aggregate import CountAggregate

        operator = CountAggregate(figures, window, time)
    else:
        combine = Combine(figures, window, time)
        in_sender = figures.combine and late == "counted"
        if in_sender:  # fused into the worker that the events are in: less to send, and no hot keys
            stream = replace(stream, route=None).flat_map(f"{name}.combine", combine)
        operator = TimeAggregate(combine, in_sender, late)
    routed = stream.key_by(*figures.by) if figures.by else stream.to_one()
    return routed.process(name, operator, parallelism=parallelism)
