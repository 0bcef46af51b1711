"""The greatest rows of each group, continuously."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from penstock.frames._jit import Column, bounded, kernel, readonly
from penstock.operators.event_time import LATE, as_us, behind, in_order, without_late
from penstock.operators.operator import Emit, Operator
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

WAITING, LEADING, RANK, _HELD = "waiting", "leading", "rank", "top_k.held"
Tables = dict[str, TimedRows]


@dataclass(frozen=True)
class TopK(Operator):
    """Emits a row, with its rank, when it comes among the ``k`` greatest of its group at its time.

    Of equal rows the earlier one leads. State: the rows from the last punctuation on, and ``k`` rows of
    each group; a group that the time is part of is over with its moment, and nothing of it is kept.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}}
    k: int
    by: str
    group: tuple[str, ...]
    time: str

    def init_state(self) -> Tables:
        return {WAITING: TimedRows(self.time), LEADING: TimedRows(self.time)}

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, self.time, watermarks)

    def process(self, batch: pl.DataFrame, state: Tables, emit: Emit) -> None:
        rows = without_late(batch, self.time, state[WAITING].clock, emit)
        if not rows.height:
            rows.select(self.by, *self.group)  # tells the plan what is missing
            emit(_ranked(rows, np.empty(0, np.int64)))
        state[WAITING].append(rows)

    def on_punctuation(self, time: dt.datetime, state: Tables, emit: Emit) -> None:
        clock = as_us(time)
        ready, state[WAITING].clock = released(state[WAITING], clock), clock
        if ready is None:
            return
        leaders = self._leaders(state[LEADING], ready)
        rows = pl.concat([leaders, ready.drop_nulls(self.by).with_columns(pl.lit(-1, pl.Int64).alias(_HELD))])
        # By group, then time, then the greatest first: a row comes after all that can keep it out.
        groups = [name for name in self.group if name != self.time]
        rows = in_order(rows, *groups, self.time, self.by, descending=[self.by])
        ranks = self._ranks(rows)
        entered = (ranks > 0) & (rows[_HELD].to_numpy() < 0)
        if entered.any():
            emit(_ranked(rows.filter(pl.Series(entered)).drop(_HELD), ranks[entered]))
        if self.time not in self.group:
            self._keep(rows.filter(pl.Series(ranks > 0)), leaders, state[LEADING])

    def _leaders(self, leading: TimedRows, ready: pl.DataFrame) -> pl.DataFrame:
        """The leaders so far of the groups that something is new in, and where they are held."""
        if not len(leading):
            return ready.clear().with_columns(pl.lit(0, pl.Int64).alias(_HELD))
        held = leading.frame().with_columns(pl.Series(_HELD, np.arange(len(leading))))
        if not self.group:
            return held
        return held.join(ready.select(self.group).unique(), on=self.group, how="semi", nulls_equal=True)

    def _ranks(self, rows: pl.DataFrame) -> Column:
        """The rank of each row among those up to its time; 0 if it is not among the first k."""
        values = rows[self.by].rank("dense").cast(pl.Int64).to_numpy()
        new = [pl.col(name).ne_missing(pl.col(name).shift()) for name in self.group]
        is_first = rows.select(pl.any_horizontal(*new) if new else pl.repeat(False, pl.len())).to_series()
        starts, out = is_first.to_numpy().copy(), np.zeros(rows.height, np.int64)
        starts[:1] = True
        rank(readonly(values), starts, np.empty(self.k, np.int64), out)
        return out

    def _keep(self, rows: pl.DataFrame, leaders: pl.DataFrame, leading: TimedRows) -> None:
        """Hold the first k of each group from now on."""
        ordered = in_order(rows, *self.group, self.by, self.time, descending=[self.by])
        grouped = ordered.group_by(self.group, maintain_order=True) if self.group else None
        kept = ordered.head(self.k) if grouped is None else grouped.head(self.k)
        gone = np.zeros(len(leading), np.bool_)
        gone[leaders[_HELD].to_numpy()] = True
        gone[kept.filter(pl.col(_HELD) >= 0)[_HELD].to_numpy()] = False
        leading.drop(gone)
        leading.append(kept.filter(pl.col(_HELD) < 0).select(leaders.columns).drop(_HELD))


@bounded("len(values) == len(is_first) == len(out) and len(best) > 0")
@kernel
def rank(values: Column, is_first: Column, best: Column, out: Column) -> None:
    """Rank rows one after the other; `best` has room for the k greatest values of a group."""
    held = 0
    for i in range(len(values)):
        if is_first[i]:
            held = 0
        place = held
        while place > 0 and best[place - 1] < values[i]:
            place -= 1
        if place < len(best):
            held = min(held + 1, len(best))
            for j in range(held - 1, place, -1):
                best[j] = best[j - 1]
            best[place] = values[i]
            out[i] = place + 1


def _ranked(rows: pl.DataFrame, ranks: Column) -> pl.DataFrame:
    return rows.with_columns(pl.Series(RANK, ranks, pl.Int64))
