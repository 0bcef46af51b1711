"""Events added up per group and pane: made in the sender or the receiver, merged in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from penstock.errors import BadArgument
from penstock.operators.aggregates import Aggregate, Parts
from penstock.operators.event_time import NEVER, as_timestamps, times
from penstock.operators.windows import TimeWindow

START, END, EVENTS = "start", "end", "events"
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

    def parts(self, time: str) -> list[pl.Expr]:
        """Events of a group → parts."""
        made = [pl.len().cast(pl.Int64).alias(EVENTS)]
        for name, aggregate in self.aggregates:
            made += [e.alias(f"{name}.{part}") for part, e in aggregate.parts(pl.col(time)).items()]
        return made

    def merged(self, time: str) -> list[pl.Expr]:
        """Parts of a group → parts of it."""
        made = [pl.col(EVENTS).sum()]
        for name, aggregate in self.aggregates:
            parts = aggregate.merge(self._columns(name, aggregate, time))
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
        made = grouped(rows, panes, self.figures.by, self.figures.parts(self.time))
        return made.select(*self.figures.by, START, pl.exclude(*self.figures.by, START))

    def merge(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Partials with several rows for a group and pane → one row for each."""
        starts = times(partials, START)
        made = grouped(partials.drop(START), starts, self.figures.by, self.figures.merged(self.time))
        return made.select(partials.columns)

    def finish(self, partials: pl.DataFrame, starts: np.ndarray) -> pl.DataFrame:
        """Partials of the windows that begin at ``starts`` → the figures of each group and window."""
        made = grouped(partials.drop(START), starts, self.figures.by, self.figures.merged(self.time))
        end = (pl.col(START) + pl.duration(microseconds=self.window.length_us)).alias(END)
        return made.select(*self.figures.by, START, end, *self.figures.results(self.time))


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


def _is_narrow(dtype: pl.DataType) -> bool:
    return (dtype.is_integer() and dtype not in (pl.Int64, pl.UInt64)) or dtype == pl.Boolean
