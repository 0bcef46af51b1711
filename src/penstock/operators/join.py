"""Rows of two streams with the same key that lie close together in time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import polars as pl

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument
from penstock.frames.types import to_polars
from penstock.operators._join_state import JoinState, Positions, Side
from penstock.operators.event_time import LATE, as_us, behind, columns_of, without_late
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks
    from penstock.operators.windows import Duration
    from penstock.topology.stream import Stream

How = Literal["inner", "left", "outer"]
OTHER, LATE_OTHER = "other", "late-other"


@dataclass(frozen=True)
class Join(Operator):
    """Emits a pair as soon as both rows are there; rows without a partner when none can come any more.

    State: the rows that can still match. Output time is the later of both, as in the paper; of a row
    without a partner it is the end of its waiting, so what is emitted is never behind the punctuation.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}, LATE_OTHER: {}}
    on: tuple[str, ...]
    within_us: int
    predicate: Any
    how: How
    time: str
    other_time: str

    def init_state(self) -> JoinState:
        return JoinState(self.on, self.time, self.other_time)

    def process(self, batch: pl.DataFrame, state: JoinState, emit: Emit) -> None:
        self.process_input("in", batch, state, emit)

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, self.other_time if name == OTHER else self.time, watermarks)

    def put_aside(self, name: str, rows: pl.DataFrame, emit: Emit) -> None:
        emit.to(LATE_OTHER if name == OTHER else LATE, rows)

    def process_input(self, name: str, batch: pl.DataFrame, state: JoinState, emit: Emit) -> None:
        is_left = name != OTHER
        side, late = (state.left, LATE) if is_left else (state.right, LATE_OTHER)
        rows = without_late(batch, side.time, side.rows.clock, emit, late)
        for mine, theirs in state.take(rows, side, self.within_us):
            self._emit_pairs(state, *((mine, theirs) if is_left else (theirs, mine)), emit)
        if not batch.height and all(side.rows.is_known for side in state.sides):
            self._emit_pairs(state, np.empty(0, np.int64), np.empty(0, np.int64), emit)  # tells the columns

    def on_punctuation(self, time: dt.datetime, state: JoinState, emit: Emit) -> None:
        clock = as_us(time)
        bound = clock - self.within_us
        for side, is_kept in ((state.left, self.how != "inner"), (state.right, self.how == "outer")):
            if is_kept:
                self._emit_lonely(side, bound, emit, is_left=side is state.left)
            side.rows.clock = clock
        state.drop_before(bound)

    def _emit_pairs(self, state: JoinState, lefts: Positions, rights: Positions, emit: Emit) -> None:
        left, right = state.left.rows.gather(lefts), state.right.rows.gather(rights)
        pairs = self._named(left, right)
        if self.predicate is not None:
            mask = self._matches(pairs)
            kept = mask.to_numpy()
            pairs, lefts, rights = pairs.filter(mask), lefts[kept], rights[kept]
        if self.how != "inner":
            state.left.rows.mark(lefts)
        if self.how == "outer":
            state.right.rows.mark(rights)
        emit(pairs)

    def _matches(self, pairs: pl.DataFrame) -> pl.Series:
        told = self.predicate if isinstance(self.predicate, pl.Expr) else self.predicate(pairs)
        told = pairs.select(told).to_series() if isinstance(told, pl.Expr) else pl.Series(told)
        return told.fill_null(value=False)

    def _named(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        """Keys, the later time, what the left has, what the right has; names that both have get a suffix."""
        at, other = left[self.time], right[self.other_time]
        both = pl.DataFrame([at.alias("at"), other.alias("other")])
        later = both.select(pl.max_horizontal("at", "other").alias(self.time)).to_series()
        mine = [c for c in left.get_columns() if c.name not in (*self.on, self.time)]
        theirs = [c for c in right.get_columns() if c.name not in (*self.on, self.other_time)]
        apart = [at.alias(f"{self.time}_left"), other.alias(f"{self.time}_right")]
        columns = [*left.select(self.on).get_columns(), later, *apart, *mine]
        taken = {column.name for column in columns}
        columns += [c.alias(f"{c.name}_right") if c.name in taken else c for c in theirs]
        return pl.DataFrame(columns)

    def _emit_lonely(self, side: Side, bound: int, emit: Emit, *, is_left: bool) -> None:
        """Emit the unmarked rows below the bound that have waited in vain; marks them as done."""
        waiting = np.flatnonzero((side.rows.times < bound) & ~side.rows.marks)
        if not len(waiting):
            return
        rows = side.rows.gather(waiting)
        side.rows.mark(waiting)
        own, suffix = rows[side.time], "_left" if is_left else "_right"
        ended = own + dt.timedelta(microseconds=self.within_us)
        rows = rows.drop(side.time).with_columns(ended.alias(self.time), own.alias(f"{self.time}{suffix}"))
        wanted = to_polars(emit.columns())
        if not is_left:
            rows = rows.rename({c: f"{c}_right" for c in self._renamed(rows, wanted)})
        missing = [name for name in wanted if name not in rows.columns]
        emit(
            rows.with_columns(pl.lit(None, wanted[name]).alias(name) for name in missing).select(
                wanted.names()
            )
        )

    def _renamed(self, rows: pl.DataFrame, wanted: pl.Schema) -> list[str]:
        """The right's columns that have a suffix in the output since the left has them too."""
        fixed = {*self.on, self.time, f"{self.time}_right"}
        return [name for name in rows.columns if name not in fixed and f"{name}_right" in wanted]


def join(
    stream: Stream,
    name: str,
    other: Stream,
    *,
    on: Any,
    within: Duration,
    predicate: Any,
    how: How,
    time: str,
    other_time: str | None,
    parallelism: int | None,
) -> Stream:
    """Lead two streams into a join; see ``Stream.join``."""
    where = f"node '{name}'"
    keys = columns_of(on, where=where, what="on")
    if how not in get_args(How) or not keys:
        got, allowed = f"how={how!r}, on={on!r}", "how='inner', 'left' or 'outer'; on=one or more columns"
        raise BadArgument(where=where, what="an argument", got=got, allowed=allowed)
    within_us = microseconds(within, where=where, what="within")
    operator = Join(keys, within_us, predicate, how, time, other_time or time)
    also = {OTHER: other.key_by(*keys)}
    return stream.key_by(*keys).process(name, operator, also=also, parallelism=parallelism)
