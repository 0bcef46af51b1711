"""Operators that follow each user from page to page, in the order of time whatever the order of arrival."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

import penstock as ps
from penstock.apps.click_stream import _kernels as kernels
from penstock.apps.click_stream.names import (
    NAMED,
    NAMES,
    forget_before,
    hashed,
    name_table,
    slots_for,
    texts_of,
)
from penstock.apps.click_stream.wanted import Wanted
from penstock.frames._jit import Column, readonly
from penstock.frames.hashing import stable_hash
from penstock.operators.event_time import LATE, NEVER, as_us, behind, times, without_late
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

WAITING, USERS, PAGES = "waiting", "users", "pages"
State = dict[str, Any]
_SECOND = 1_000_000


@dataclass(frozen=True)
class Following(ps.Operator):
    """Takes visits (user, time, page), gives patterns that users have completed, and their visits.

    ``pattern`` is a hash of its steps; the output ``names`` has what steps are called. Patterns are added up
    per ``pane_us``: what is told of them later has no finer time.

    A session ends when its user has been away longer than ``away_us``; loading a page again is no step.
    Visits of the same second count in the order of the log. State: visits from the last punctuation on,
    and the sessions that are not over.
    """

    outputs: ClassVar[Mapping[str, Any]] = {LATE: {}, NAMES: NAMED}
    away_us: int
    pane_us: int

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many steps a pattern is told with: columns ``step_0``, ``step_1``, …"""

    @abstractmethod
    def entered(self, visits: pl.DataFrame, state: State) -> pl.DataFrame:
        """Visits → what is kept of them until it is their turn: user, time, page as a hash, and more."""

    @abstractmethod
    def follow(self, visits: pl.DataFrame, at: Column, users: Column, state: State, emit: Emit) -> None:
        """Emit the patterns that visits in order complete. ``users`` are rows of the table of users."""

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, "time", watermarks)

    def process(self, batch: pl.DataFrame, state: State, emit: Emit) -> None:
        rows = without_late(batch, "time", state[WAITING].clock, emit)
        if rows.height:
            state[WAITING].append(self.entered(rows, state))
        else:
            nothing = np.empty(0, np.int64)
            self.tell(emit, nothing.view(np.uint64), nothing, nothing, np.empty((self.steps, 0), np.uint64))

    def on_punctuation(self, time: dt.datetime, state: State, emit: Emit) -> None:
        clock, before = as_us(time), state[WAITING].clock
        ready, state[WAITING].clock = released(state[WAITING], clock), clock
        if ready is not None:
            visits = ready[order_of(times(ready, "time"))]
            users = state[USERS].rows(visits.select("user"))
            self.follow(visits, readonly(times(visits, "time")), users, state, emit)
        if clock // self.away_us != before // self.away_us:  # seldom enough to cost little
            self.forget(clock, state)

    def tell(self, emit: Emit, pattern: Column, panes: Column, visits: Column, steps: Column) -> None:
        """Emit patterns that were completed in panes of these numbers."""
        time = pl.Series("time", panes * self.pane_us).cast(pl.Datetime("us"))
        named = {f"step_{i}": row for i, row in enumerate(steps)}
        emit(pl.DataFrame({"pattern": pattern, "time": time, "visits": visits, **named}))

    def tell_names(self, emit: Emit, names: pl.DataFrame, panes: Column) -> None:
        """Emit what the steps of these panes are called."""
        last = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(panes.max()) * self.pane_us)
        emit.to(NAMES, names.select("step", pl.lit(last, pl.Datetime("us")).alias("time"), "text"))

    def forget(self, clock: int, state: State) -> None:
        """Let go of users whose session is over."""
        forget_before(state[USERS], clock - self.away_us)


@dataclass(frozen=True)
class Sequences(Following):
    """Every sequence of ``length`` pages that a user visits one after the other."""

    length: int

    @property
    def steps(self) -> int:
        return self.length

    def init_state(self) -> State:
        places = {f"page_{i}": "uint64" for i in range(self.length - 1)}
        return {
            WAITING: TimedRows("time"),
            USERS: ps.KeyedTable({"user": "uint64"}, {"seen": (int, NEVER), **places}),
            PAGES: name_table(),
        }

    def entered(self, visits: pl.DataFrame, state: State) -> pl.DataFrame:
        hashes, numbers, firsts = hashed(visits["page"])
        new = pl.DataFrame({"step": hashes[firsts], "text": visits["page"].gather(firsts)})
        state[PAGES].maximum("seen", state[PAGES].rows(new)[numbers], times(visits, "time"))
        return pl.DataFrame({"user": visits["user"], "time": visits["time"], "page": hashes})

    def follow(self, visits: pl.DataFrame, at: Column, users: Column, state: State, emit: Emit) -> None:
        table, size = state[USERS], len(at)
        last = tuple(table[f"page_{i}"] for i in range(self.length - 1))
        found, pages = np.empty((self.length, size), np.uint64), readonly(visits["page"].to_numpy())
        kernels.follow_pages(users, pages, at, self.away_us, table["seen"], last, found)
        panes, pattern = at // self.pane_us, np.empty(size, np.uint64)
        firsts, counts = np.empty(size, np.int64), np.empty(size, np.int64)
        count = kernels.count_sequences(found, panes, slots_for(size), pattern, firsts, counts)
        if count:
            first = firsts[:count]
            steps = found[:, first]
            self.tell(emit, pattern[:count], panes[first], counts[:count], steps)
            self.tell_names(emit, texts_of(state[PAGES], np.unique(steps)), panes[first])

    def forget(self, clock: int, state: State) -> None:
        """Users, and pages that no session can still lead through."""
        super().forget(clock, state)
        forget_before(state[PAGES], clock - self.length * self.away_us)


@dataclass(frozen=True)
class Matches(Following):
    """The patterns that the user of this application has given; each is told as one step."""

    wanted: Wanted

    @property
    def steps(self) -> int:
        return 1

    def init_state(self) -> State:
        values = {"seen": (int, NEVER), "page": "uint64", "places": "uint64"}
        return {WAITING: TimedRows("time"), USERS: ps.KeyedTable({"user": "uint64"}, values)}

    def entered(self, visits: pl.DataFrame, state: State) -> pl.DataFrame:
        hashes, numbers, firsts = hashed(visits["page"])
        steps = self.wanted.steps(visits["page"].gather(firsts))[numbers]
        return pl.DataFrame({"user": visits["user"], "time": visits["time"], "page": hashes, "steps": steps})

    def follow(self, visits: pl.DataFrame, at: Column, users: Column, state: State, emit: Emit) -> None:
        table, wanted = state[USERS], self.wanted
        page, steps = (readonly(visits[name].to_numpy()) for name in ("page", "steps"))
        found, columns = np.empty(len(at), np.uint64), (table["seen"], table["page"], table["places"])
        kernels.follow_steps(users, page, steps, at, self.away_us, wanted.bits(), *columns, found)
        hits = [
            np.unique(at[found & last != 0] // self.pane_us, return_counts=True) for last in wanted.lasts()
        ]
        names = pl.Series(wanted.names)
        which = np.repeat(np.arange(len(hits)), [len(panes) for panes, _ in hits])
        if len(which):
            pattern = stable_hash([names])[which]
            panes, visits_ = (np.concatenate(part) for part in zip(*hits, strict=True))
            self.tell(emit, pattern, panes, visits_, pattern[np.newaxis])
            told = pl.DataFrame({"step": pattern, "text": names.gather(which)}).unique(maintain_order=True)
            self.tell_names(emit, told, panes)


def order_of(at: Column) -> Column:
    """The rows in the order of time; equal times as they came. Logs have whole seconds, and few of them."""
    if not len(at):
        return at
    since = at - at.min()
    if since.max() < _SECOND << 16 and not (since % _SECOND).any():
        since = (since // _SECOND).astype(np.uint16)  # NumPy sorts these by radix
    return np.argsort(since, kind="stable")
