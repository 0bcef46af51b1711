"""Operators that follow each user from page to page, in the order of time whatever the order of arrival."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

import penstock as ps
from penstock.frames._jit import Column, kernel, readonly
from penstock.frames.hashing import stable_hash
from penstock.operators.event_time import LATE, NEVER, as_us, times, without_late
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

WAITING, USERS, PAGES = "waiting", "users", "pages"
SEPARATOR = " > "
PATTERNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "pattern": pl.String,
    "time": pl.Datetime("us"),
    "visits": pl.Int64,
}
State = dict[str, Any]
_SECOND = 1_000_000


@dataclass(frozen=True)
class Following(ps.Operator):
    """Takes visits (user, time, page), gives patterns (pattern, time, visits) that users have completed.

    They are added up per ``pane_us``: what is told of them later has no finer time.

    A session ends when its user has been away longer than ``away_us``; loading a page again is no step.
    Visits of the same second count in the order of the log. State: visits from the last punctuation on,
    and the sessions that are not over.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}}
    away_us: int
    pane_us: int

    def process(self, batch: pl.DataFrame, state: State, emit: Emit) -> None:
        rows = without_late(batch, "time", state[WAITING].clock, emit)
        if not rows.height:
            emit(pl.DataFrame(schema=PATTERNS))
        state[WAITING].append(rows)

    def on_punctuation(self, time: dt.datetime, state: State, emit: Emit) -> None:
        clock, before = as_us(time), state[WAITING].clock
        ready, state[WAITING].clock = released(state[WAITING], clock), clock
        if ready is not None:
            visits = ready[order_of(times(ready, "time"))]
            users = state[USERS].rows(visits.select("user"))
            patterns = self.follow(visits, times(visits, "time"), users, state)
            if patterns.height:
                emit(patterns)
        if (
            clock // self.away_us != before // self.away_us
        ):  # often enough to forget, seldom enough to cost little
            self.forget(clock, state)

    @abstractmethod
    def follow(self, visits: pl.DataFrame, at: Column, users: Column, state: State) -> pl.DataFrame:
        """Visits in order → the patterns that they complete. ``users`` are rows of the table of users."""

    def pane(self, at: Column) -> pl.Series:
        """The beginnings of the panes that times lie in."""
        return pl.Series("time", at // self.pane_us * self.pane_us).cast(pl.Datetime("us"))

    def forget(self, clock: int, state: State) -> None:
        """Let go of users whose session is over."""
        state[USERS].remove(_older(state[USERS], clock - self.away_us))


@dataclass(frozen=True)
class Sequences(Following):
    """Every sequence of ``length`` pages that a user visits one after the other."""

    length: int

    def init_state(self) -> State:
        places = {f"page_{i}": (int, -1) for i in range(self.length - 1)}
        return {
            WAITING: TimedRows("time"),
            USERS: ps.KeyedTable({"user": "uint64"}, {"seen": (int, NEVER), **places}),
            PAGES: ps.KeyedTable({"page": str}, {"seen": (int, NEVER)}),
        }

    def follow(self, visits: pl.DataFrame, at: Column, users: Column, state: State) -> pl.DataFrame:
        table, pages = state[USERS], state[PAGES]
        page = pages.rows(visits.select("page"))
        pages.maximum("seen", page, at)
        last = tuple(table[f"page_{i}"] for i in range(self.length - 1))
        found = np.empty((self.length, len(at)), np.int64)
        follow_pages(users, page, readonly(at), self.away_us, table["seen"], last, found)
        complete = found[0] >= 0
        steps = [pl.Series(f"{i}", row[complete]) for i, row in enumerate(found)]
        # Counted by number first: most patterns come often, and text is dear.
        counts = counted(pl.DataFrame([*steps, self.pane(at[complete])]))
        used, places = np.unique(counts[:, : self.length].to_numpy(), return_inverse=True)
        names = pages.frame(used)["page"]
        texts = [names.gather(column).alias(f"{i}") for i, column in enumerate(places.T)]
        pattern = pl.DataFrame(texts).select(pattern=pl.concat_str(pl.all(), separator=SEPARATOR))
        return pattern.hstack(counts.select("time", "visits"))

    def forget(self, clock: int, state: State) -> None:
        """Users, and pages that no session can still lead through."""
        super().forget(clock, state)
        state[PAGES].remove(_older(state[PAGES], clock - self.length * self.away_us))


@dataclass(frozen=True)
class Matches(Following):
    """The patterns that the user of this application has given (see ``wanted.Wanted``)."""

    wanted: Any

    def init_state(self) -> State:
        values = {"seen": (int, NEVER), "page": "uint64", "places": "uint64"}
        return {WAITING: TimedRows("time"), USERS: ps.KeyedTable({"user": "uint64"}, values)}

    def follow(self, visits: pl.DataFrame, at: Column, users: Column, state: State) -> pl.DataFrame:
        table, wanted = state[USERS], self.wanted
        page = stable_hash([visits["page"]])
        steps = wanted.steps(visits["page"])
        found = np.empty(len(at), np.uint64)
        columns = (table["seen"], table["page"], table["places"])
        follow_steps(users, page, readonly(steps), readonly(at), self.away_us, wanted.bits(), *columns, found)
        time = self.pane(at)
        hits = [(name, time.filter(pl.Series(found & last != 0))) for name, last in wanted.lasts()]
        made = [
            pl.DataFrame([pl.repeat(name, len(when), eager=True).alias("pattern"), when])
            for name, when in hits
        ]
        return counted(pl.concat(made))


def counted(completed: pl.DataFrame) -> pl.DataFrame:
    """One row for equal ones, with their number."""
    groups = completed.group_by(completed.columns, maintain_order=True)
    return groups.agg(visits=pl.len().cast(pl.Int64))


def order_of(at: Column) -> Column:
    """The rows in the order of time; equal times as they came. Logs have whole seconds, and few of them."""
    if not len(at):
        return at
    since = at - at.min()
    if since.max() < _SECOND << 16 and not (since % _SECOND).any():
        since = (since // _SECOND).astype(np.uint16)  # NumPy sorts these by radix
    return np.argsort(since, kind="stable")


def _older(table: ps.KeyedTable, bound: int) -> Column:
    rows = table.find(table.frame().select(pl.nth(0)))
    return rows[table["seen"][rows] < bound]


@kernel
def follow_pages(
    users: Column, pages: Column, at: Column, away: int, seen: Column, last: tuple[Column, ...], found: Column
) -> None:
    """The sequence that each visit ends, in ``found``; its first page is negative where there is none."""
    earlier = len(last)
    for i in range(len(users)):
        user = users[i]
        if at[i] - seen[user] > away:
            for j in range(earlier):
                last[j][user] = -1
        seen[user] = at[i]
        found[0, i] = -1
        if pages[i] == last[earlier - 1][user]:
            continue
        for j in range(earlier):
            found[j, i] = last[j][user]
        found[earlier, i] = pages[i]
        for j in range(earlier - 1):
            last[j][user] = last[j + 1][user]
        last[earlier - 1][user] = pages[i]


@kernel
def follow_steps(
    users: Column,
    pages: Column,
    steps: Column,
    at: Column,
    away: int,
    bits: Column,
    seen: Column,
    last: Column,
    places: Column,
    found: Column,
) -> None:
    """Shift-And: a bit of ``places`` says that a user has come to that step of a pattern.

    ``bits`` are the first steps of the patterns and the steps that others may follow later.
    """
    firsts, waits, one = bits[0], bits[1], np.uint64(1)
    for i in range(len(users)):
        user = users[i]
        if at[i] - seen[user] > away:
            places[user], last[user] = np.uint64(0), np.uint64(0)
        seen[user] = at[i]
        found[i] = np.uint64(0)
        if pages[i] == last[user]:
            continue
        last[user] = pages[i]
        found[i] = ((places[user] << one) | firsts) & steps[i]
        places[user] = found[i] | (places[user] & waits)
