"""Which events belong together: windows of time, and windows of so many events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument

Duration: TypeAlias = str | timedelta


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Windows ``[start, start + length)`` that start at every multiple of ``every`` since 1970.

    A pane is the longest stretch of time that lies in the same windows as a whole: events are added up
    per pane, and a window is the sum of its panes. Works on numbers and on NumPy arrays, in µs.
    """

    length_us: int
    every_us: int

    @property
    def pane_us(self) -> int:
        """The length of a pane."""
        return math.gcd(self.length_us, self.every_us)

    @property
    def is_tumbling(self) -> bool:
        """Whether each event is in one window only."""
        return self.length_us == self.every_us

    def pane(self, time_us: Any) -> Any:
        """Where the pane of a time starts."""
        return time_us // self.pane_us * self.pane_us

    def first_start(self, pane_us: Any) -> Any:
        """Where the first window starts that a pane lies in."""
        return -((self.length_us - self.pane_us - pane_us) // self.every_us) * self.every_us

    def last_start(self, pane_us: Any) -> Any:
        """Where the last window starts that a pane lies in."""
        return pane_us // self.every_us * self.every_us

    def last_closed(self, clock_us: Any) -> Any:
        """Where the last window starts that no event from ``clock_us`` on lies in."""
        return (clock_us - self.length_us) // self.every_us * self.every_us

    def is_late(self, pane_us: Any, clock_us: Any) -> Any:
        """Whether a window that the pane lies in is closed."""
        return self.first_start(pane_us) <= self.last_closed(clock_us)


@dataclass(frozen=True, slots=True)
class CountWindow:
    """Windows of ``length`` events of a group, one after every ``every`` events, in the order of time."""

    length: int
    every: int


def tumbling(length: Duration) -> TimeWindow:
    """Windows of this length, one after the other.

    >>> tumbling("5s")
    TimeWindow(length_us=5000000, every_us=5000000)
    """
    length_us = _positive(length, "tumbling", "length")
    return TimeWindow(length_us, length_us)


def sliding(*, length: Duration, every: Duration) -> TimeWindow:
    """Windows of this length that start ``every`` so often and overlap."""
    length_us, every_us = _positive(length, "sliding", "length"), _positive(every, "sliding", "every")
    if every_us > length_us:
        raise BadArgument(where="sliding", what="every", got=repr(every), allowed=f"at most {length!r}")
    return TimeWindow(length_us, every_us)


def count_window(length: int, *, every: int | None = None) -> CountWindow:
    """Windows of this many events; the next starts ``every`` events later, by default when one is full.

    Events of a group are counted in the order of their time, those of equal time in that of their values.
    """
    every = length if every is None else every
    if not 1 <= every <= length:
        got, allowed = f"length {length}, every {every}", "1 ≤ every ≤ length"
        raise BadArgument(where="count_window", what="the window", got=got, allowed=allowed)
    return CountWindow(length, every)


def _positive(duration: Duration, where: str, what: str) -> int:
    length_us = microseconds(duration, where=where, what=what)
    if length_us < 1:
        raise BadArgument(where=where, what=what, got=repr(duration), allowed="more than 0")
    return length_us
