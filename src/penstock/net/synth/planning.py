"""Cuts generated traffic into epochs and splits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.connect.source import BATCH_ROWS, END_OF_TIME, Backlog, Limit, Offset, SourcePlanner, Split
from penstock.net.synth.windows import plan_of, window_of

if TYPE_CHECKING:
    from penstock.net.synth.source import Source

_USUAL_PACKET_BYTES = 600


class SynthPlanner(SourcePlanner):
    """An offset is a window, a packet in it, the number of packets before, and when the first epoch began."""

    def __init__(self, source: Source, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._source = source
        self._clock_ns = clock_ns
        self._plan = plan_of(source.traffic)
        self._counts: dict[int, int] = {}

    def initial(self) -> Offset:
        """The first packet. The clock is read in the first epoch, whose end offset keeps the moment."""
        return {"window": 0, "row": 0, "n": 0, "began_ns": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """As many packets as are due and allowed, about a million at most."""
        began_ns = start["began_ns"] or (self._clock_ns() if self._source.rate else 0)
        room = self._due(start, began_ns)
        if room is None or room > BATCH_ROWS:
            room = BATCH_ROWS
        if room <= 0 or self.finished(start):
            return start
        if limit.rows is not None:
            room = min(room, limit.rows)
        if limit.bytes is not None:
            room = min(room, limit.bytes // self._packet_bytes)
        return {**self._advanced(start, max(1, room)), "began_ns": began_ns}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Equal numbers of packets."""
        count = end["n"] - start["n"]
        pieces = max(1, min(parallelism, count))
        out, offset = [], start
        for i in range(pieces if count else 0):
            size = count * (i + 1) // pieces - count * i // pieces
            body = {"window": offset["window"], "row": offset["row"], "count": size}
            out.append(Split(offset["n"], body))
            offset = self._advanced(offset, size)
        return out

    def backlog(self, offset: Offset) -> Backlog:
        """What is due by now; nothing once the traffic has ended."""
        if self.finished(offset):
            return Backlog(rows=0)
        due = self._due(offset, offset["began_ns"] or self._clock_ns())
        return Backlog(rows=None if due is None else max(0, due))

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        """The time of the next packet: they are in order."""
        if self._source.time is None:
            return None
        if self.finished(offset):
            return END_OF_TIME
        window = window_of(self._source.traffic, offset["window"])
        if offset["row"] >= len(window):
            return None if observed is None else observed
        return self._source.traffic.start_us + window.time_us(offset["row"])

    def finished(self, offset: Offset) -> bool:
        """Whether the last window is behind."""
        return bool(offset["window"] >= self._plan.count)

    def _advanced(self, offset: Offset, count: int) -> Offset:
        """The offset ``count`` packets later, or the end; never behind a window's last packet."""
        window, row, n = offset["window"], offset["row"], offset["n"]
        while window < self._plan.count:
            left = self._count(window) - row
            taken = min(left, count)
            row, n, count = row + taken, n + taken, count - taken
            if row < self._count(window):
                break
            window, row = window + 1, 0
        return {**offset, "window": window, "row": row, "n": n}

    def _count(self, window: int) -> int:
        if window not in self._counts:
            self._counts[window] = len(window_of(self._source.traffic, window))
        return self._counts[window]

    def _due(self, offset: Offset, began_ns: int) -> int | None:
        if self._source.rate is None:
            return None
        elapsed_ns = max(0, self._clock_ns() - began_ns)
        return 1 + int(elapsed_ns * self._source.rate / 1e9) - int(offset["n"])

    @property
    def _packet_bytes(self) -> int:
        mean = self._source.traffic.mean_bytes
        return int(mean) if mean is not None else _USUAL_PACKET_BYTES
