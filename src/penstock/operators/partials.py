"""Events added up per group and pane: made in the sender or the receiver, merged in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock.errors import BadArgument
from penstock.operators.aggregates import Aggregate, Mean, Parts
from penstock.operators.event_time import NEVER, as_timestamps, times
from penstock.operators.exact import EXACT
from penstock.operators.integer_sums import WIDE, MeanOfDurations, may_exceed
from penstock.operators.operator import Emit
from penstock.operators.windows import TimeWindow

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

START, END, EVENTS = "start", "end", "events"
REASON = "window.reason"
"""The column that says why a window has no figures; it is there if one has none."""
_PLACED = "window.start"
_FEW_PANES = 8


@dataclass(frozen=True)
class Figures:
    """The aggregates of a node by name, and the columns that groups are told apart by."""

    by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    @classmethod
    def of(cls, node: str, by: tuple[str, ...], aggregates: Mapping[str, Aggregate]) -> Figures:
        """Raises BadArgument for names that are taken and for what is no aggregate."""
        where = f"node '{node}'"
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                got, allowed = type(aggregate).__name__, "an aggregate such as ps.count() or ps.sum('column')"
                raise BadArgument(where=where, what=f"aggregate '{name}'", got=got, allowed=allowed)
        taken = [name for name in (*by, *aggregates) if name in (START, END, EVENTS)]
        if not aggregates or taken or set(by) & set(aggregates):
            got = ", ".join((*by, *aggregates)) or "no aggregates"
            allowed = "at least one aggregate, each name once, none of them start, end or events"
            raise BadArgument(where=where, what="the names", got=got, allowed=allowed)
        return cls(by, tuple(aggregates.items()))

    @property
    def combine(self) -> bool:
        """Whether all of them are worth being made in the sender."""
        return all(aggregate.combines for _, aggregate in self.aggregates)

    def widened(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with numbers that have room for a sum."""
        summed = {getattr(a, a.sums) for _, a in self.aggregates if a.sums} - set(self.by)
        narrow = [name for name in summed if name in rows.columns and _is_narrow(rows.schema[name])]
        return rows.with_columns(pl.col(narrow).cast(pl.Int64)) if narrow else rows

    def on(self, schema: Mapping[str, pl.DataType]) -> Figures:
        """The same for these events or partials: floats are added up in another way than integers."""
        return replace(
            self, aggregates=tuple((name, _suited(name, a, schema)) for name, a in self.aggregates)
        )

    def for_rows(self, rows: pl.DataFrame) -> Figures:
        """Return the same for these events, with room for sums beyond 64 bits where they may occur."""
        return replace(self, aggregates=tuple((name, _roomy(a, rows)) for name, a in self.aggregates))

    def adopted(self, partials: pl.DataFrame, time: str) -> pl.DataFrame:
        """Return partials of a state that an earlier release may have written, with all parts of today."""
        made = []
        for name, aggregate in self.on(partials.schema).aggregates:
            parts = aggregate.adopt(self._columns(name, aggregate, time))
            made += [e.alias(f"{name}.{part}") for part, e in parts.items()]
        missing = [e for e in made if e.meta.output_name() not in partials.columns]
        return partials.with_columns(missing) if missing else partials

    def figured(self, parts: pl.DataFrame, time: str) -> pl.DataFrame:
        """Return the figures of parts, with a column ``REASON`` if a row gives none."""
        found = parts.select(self.results(time))
        told = [
            reason for name, a in self.aggregates if (reason := self._misfits(name, a, parts)) is not None
        ]
        if not told:
            return found
        texts = pl.DataFrame([reason.alias(f"{n}") for n, reason in enumerate(told)])
        text = pl.concat_str(pl.all(), separator="; ", ignore_nulls=True).replace("", None)
        return found.hstack(texts.select(text.alias(REASON)))

    @staticmethod
    def _misfits(name: str, aggregate: Aggregate, parts: pl.DataFrame) -> pl.Series | None:
        own = {c: c.removeprefix(f"{name}.") for c in parts.columns if c.startswith(f"{name}.")}
        return aggregate.misfits(parts.select(list(own)).rename(own))

    def parts(self, time: str) -> list[pl.Expr]:
        """Events of a group → parts, to be settled."""
        made = [pl.len().cast(pl.Int64).alias(EVENTS)]
        for name, aggregate in self.aggregates:
            made += [e.alias(f"{name}.{part}") for part, e in aggregate.parts(pl.col(time)).items()]
        return made

    def merged(self, time: str) -> list[pl.Expr]:
        """Parts of a group → parts of it, to be settled."""
        made = [pl.col(EVENTS).sum()]
        for name, aggregate in self.aggregates:
            parts = aggregate.merge(self._columns(name, aggregate, time))
            made += [e.alias(f"{name}.{part}") for part, e in parts.items()]
        return made

    def settled(self, time: str, *, merged: bool) -> list[pl.Expr]:
        """What is left to be done when the parts of each group are together."""
        made = []
        for name, aggregate in self.aggregates:
            settle = aggregate.settle_merged if merged else aggregate.settle
            parts = settle(self._columns(name, aggregate, time))
            made += [e.alias(f"{name}.{part}") for part, e in parts.items()]
        return made

    def results(self, time: str) -> list[pl.Expr]:
        """Parts → figures."""
        return [a.result(self._columns(name, a, time)).alias(name) for name, a in self.aggregates]

    @staticmethod
    def _columns(name: str, aggregate: Aggregate, time: str) -> Parts:
        return {part: pl.col(f"{name}.{part}") for part in aggregate.parts(pl.col(time))}


@dataclass(frozen=True)
class Combine:
    """Adds a batch up to one row per group and pane. A function of the batch alone: it runs in the sender."""

    figures: Figures
    window: TimeWindow
    time: str

    def __call__(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Events → partials: the group, ``start`` of the pane (null: an event without time), parts."""
        events = times(batch, self.time)
        panes = np.where(events == NEVER, NEVER, self.window.pane(events))
        rows = self.figures.widened(batch)
        figures = self.figures.on(batch.schema).for_rows(rows)
        made = grouped(rows, panes, figures.by, figures.parts(self.time))
        made = made.with_columns(figures.settled(self.time, merged=False))
        return made.select(*figures.by, START, pl.exclude(*figures.by, START))

    def is_late(self, events: pl.DataFrame, watermarks: Watermarks) -> Mask:
        """Return which events are late: a window of theirs has closed at their watermark."""
        moments = times(events, self.time)
        late: Mask = self.window.is_late(self.window.pane(moments), watermarks) | (moments == NEVER)
        return late

    def merge(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Partials with several rows for a group and pane → one row for each."""
        return self._merged(partials, times(partials, START)).select(partials.columns)

    def finish(self, partials: pl.DataFrame, starts: np.ndarray) -> pl.DataFrame:
        """Partials of the windows that begin at ``starts`` → the figures of each group and window."""
        made, figures = self._merged(partials, starts), self.figures.on(partials.schema)
        end = (pl.col(START) + pl.duration(microseconds=self.window.length_us)).alias(END)
        keys = made.select(*figures.by, START, end)
        return keys.hstack(figures.figured(made, self.time))

    def _merged(self, partials: pl.DataFrame, starts: np.ndarray) -> pl.DataFrame:
        figures = self.figures.on(partials.schema)
        made = grouped(partials.drop(START), starts, figures.by, figures.merged(self.time))
        return made.with_columns(figures.settled(self.time, merged=True))


def emit_figures(made: pl.DataFrame, emit: Emit) -> None:
    """Emit windows; those without figures become dead letters."""
    if REASON in made.columns:
        bad = made.filter(pl.col(REASON).is_not_null())
        emit.reject(bad.drop(REASON), bad[REASON])
        made = made.filter(pl.col(REASON).is_null()).drop(REASON)
    if made.height:
        emit(made)


def grouped(rows: pl.DataFrame, starts: np.ndarray, by: Sequence[str], parts: list[pl.Expr]) -> pl.DataFrame:
    """Group by columns and start. One column less to hash when there are few starts, as there mostly are."""
    found = np.unique(starts) if len(starts) else starts
    if not by or not len(found) or len(found) > _FEW_PANES:
        placed = rows.with_columns(
            as_timestamps(starts, _PLACED)
        )  # an event may have a column 'start' itself
        groups = placed.group_by([*by, _PLACED], maintain_order=True).agg(parts)
        return groups.rename({_PLACED: START}).select(pl.exclude(START), START)
    made = []
    for start in found:
        some = rows if len(found) == 1 else rows.filter(pl.Series(starts == start))
        groups = some.group_by(by, maintain_order=True).agg(parts)
        made.append(groups.with_columns(as_timestamps(np.full(groups.height, start), START)))
    return pl.concat(made)


def _suited(name: str, aggregate: Aggregate, schema: Mapping[str, pl.DataType]) -> Aggregate:
    if not aggregate.sums:
        return aggregate
    column = schema.get(getattr(aggregate, aggregate.sums))
    if (column is not None and column.is_float()) or f"{name}.{EXACT}" in schema:
        return aggregate.exact()
    if type(aggregate) is Mean and isinstance(schema.get(f"{name}.sum", column), pl.Duration):
        return MeanOfDurations(aggregate.column)
    return aggregate


def _roomy(aggregate: Aggregate, rows: pl.DataFrame) -> Aggregate:
    wide = WIDE.get(type(aggregate))
    if wide is None:
        return aggregate
    column: str = getattr(aggregate, aggregate.sums)
    return wide(column) if column in rows.columns and may_exceed(rows[column]) else aggregate


def _is_narrow(dtype: pl.DataType) -> bool:
    return (dtype.is_integer() and dtype not in (pl.Int64, pl.UInt64)) or dtype == pl.Boolean
