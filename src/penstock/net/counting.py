"""Packets added up by protocol and stretch of a capture, as frames."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from penstock.net import _tally as t
from penstock.net._index_state import DONE, FULL, MORE, NO_TIME
from penstock.net.capture import END, ODD_RECORDS, Block, Fault, Walk
from penstock.net.decoding import times, views

_MOST_WAITING = 1 << 14
_SUMS = {"packets": t.PACKETS, "bytes": t.BYTES, "captured_bytes": t.CAPTURED}


class Counter:
    """Adds packets up by stretches of the file: what a stretch gives does not depend on how it was read."""

    def __init__(self, stretch_bytes: int, most_tunnels: int) -> None:
        self._stretch = stretch_bytes
        self._most_tunnels = most_tunnels
        self._cells = np.zeros(t.CELLS, np.int32)
        self._rows = np.empty((2 * t.CELLS, t.ROW), np.int64)
        self._tally = np.zeros(t.TALLY, np.int64)
        self._tally[[t.LEAST_NS, t.GREATEST_NS]] = NO_TIME
        self._waiting = np.empty(_MOST_WAITING, np.int64)
        self._frames: list[tuple[int, pl.DataFrame]] = []

    def count(self, walk: Walk, stop: int) -> Iterator[tuple[Fault, ...]]:
        """Add up the records that begin before ``stop``; gives out the damage between them."""
        is_pcap = walk.header.kind == "pcap"
        found = True
        while found:
            if is_pcap:
                self._count_records(walk, stop)
            found = False
            for block in walk.blocks(stop, most=ODD_RECORDS if is_pcap else END):
                found = is_pcap
                self.add(block)
                yield block.faults

    def _count_records(self, walk: Walk, stop: int) -> None:
        data, filled, base, _, form = walk.span(stop)
        into = (walk.state, self._cells, self._rows, self._tally, self._waiting)
        answer = MORE
        while answer != DONE:
            answer = t.count_plain(data, filled, base, stop, form, self._most_tunnels, self._stretch, *into)
            if self._tally[t.WAITING]:
                t.count_waiting(data, form, self._most_tunnels, *into)
            if answer == FULL:
                self._drain()

    def add(self, block: Block) -> None:
        """Add up indexed packets."""
        done, into = 0, (self._cells, self._rows, self._tally)
        while (done := t.count_block(*views(block), done, self._most_tunnels, self._stretch, *into)) < len(
            block
        ):
            self._drain()

    def take(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Give out what was added up, with the places of the first packets; then it is forgotten."""
        self._drain()
        frames, self._frames = self._frames, []
        yield from frames

    def _drain(self) -> None:
        """Rows of whole stretches become a frame; the next packet begins a stretch."""
        t.finish(self._cells, self._rows, self._tally)
        if count := int(self._tally[t.ROWS]):
            self._frames.append((int(self._tally[t.PLACE]), _frame(self._rows[:count])))
        self._tally[[t.ROWS, t.FIRST_ROW]] = 0


def _frame(rows: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> pl.DataFrame:
    rows = rows[np.lexsort((rows[:, t.CELL], rows[:, t.STRETCH]))]
    cell = rows[:, t.CELL]
    return pl.DataFrame(
        [
            times("time", rows[:, t.FIRST_NS]),
            times("last_time", rows[:, t.LAST_NS]),
            pl.Series("ip_version", (cell >> 8 & 3).astype(np.uint8) * 2),
            pl.Series("protocol", (cell & 255).astype(np.uint8)),
            pl.Series("reason", (cell >> 10).astype(np.uint8)),
            *(pl.Series(name, rows[:, column]) for name, column in _SUMS.items()),
        ]
    )
