"""Figures of the events of each group and window, whatever the order in which the events come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from penstock.errors import BadArgument
from penstock.operators.aggregates import Aggregate
from penstock.operators.event_time import LATE, NEVER, as_us, columns_of, times
from penstock.operators.operator import Emit, Operator
from penstock.operators.partials import EVENTS, START, Combine, Figures, emit_figures
from penstock.operators.sliding import closed_windows
from penstock.operators.timed_rows import TimedRows
from penstock.operators.windows import CountWindow, TimeWindow

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks
    from penstock.topology.stream import Stream

Late = Literal["counted", "kept"]
_FEW_WINDOWS = 8
"""Panes that lie in so many closing windows on average are merged window by window: it is faster."""
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
        self._adopt(state, made.columns)
        state.append(made)
        if len(state) > 2 * max(state.settled, _WORTHWHILE):
            state.replace(self.combine.merge(state.frame()))

    def on_punctuation(self, time: dt.datetime, state: TimedRows, emit: Emit) -> None:
        window, before = self.combine.window, state.clock
        state.clock = as_us(time)
        closed, closed_before = window.last_closed(state.clock), window.last_closed(before)
        if closed == closed_before or not (state.times < closed + window.length_us).any():
            return
        rows = self.combine.figures.adopted(state.before(closed + window.length_us), self.combine.time)
        for made in self._figures(rows, closed_before, closed):
            emit_figures(made, emit)
        state.drop_before(closed + window.every_us)

    def _figures(self, rows: pl.DataFrame, before: int, closed: int) -> Iterator[pl.DataFrame]:
        """Yield the figures of the windows that close now."""
        window, panes = self.combine.window, times(rows, START)
        if window.is_tumbling:
            yield self.combine.finish(rows, panes)
        elif _spread_rows(panes, window, before, closed) > _FEW_WINDOWS * rows.height:
            yield from closed_windows(rows, self.combine, before, closed)
        else:
            positions, starts = _spread(panes, window, before, closed)
            if len(starts):
                yield self.combine.finish(rows[positions], starts)

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

    def _adopt(self, state: TimedRows, columns: list[str]) -> None:
        """Bring partials that an earlier release has kept to the columns of today."""
        if state.is_known and state.columns != columns:
            kept = state.frame() if len(state) else state.before(NEVER)  # no rows, but their columns
            state.replace(self.combine.figures.adopted(kept, self.combine.time).select(columns))

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


def _spread_rows(panes: np.ndarray, window: TimeWindow, before: int, closed: int) -> int:
    """Count the pairs of a pane and a window that closes now."""
    return int(_overlaps(panes, window, before, closed)[1].sum())


def _overlaps(
    panes: np.ndarray, window: TimeWindow, before: int, closed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first window of each pane that closes now, and how many of its windows do."""
    firsts = np.maximum(window.first_start(panes), before + window.every_us)
    lasts = np.minimum(window.last_start(panes), closed)
    return firsts, np.maximum((lasts - firsts) // window.every_us + 1, 0)


def _spread(panes: np.ndarray, window: TimeWindow, before: int, closed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which pane goes into which window of those that close now: positions and starts."""
    firsts, counts = _overlaps(panes, window, before, closed)
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
