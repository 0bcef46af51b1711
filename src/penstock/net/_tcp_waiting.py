"""Between the kernels of TCP reassembly and the state: the pieces that wait, as arrays and as saved rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import within
from penstock.frames.hashing import byte_buffers
from penstock.net import _tcp_layout as y
from penstock.net._gather import NO_BYTES, gathered
from penstock.net._tcp_kernels import number
from penstock.net.flows import FLOW_KEY
from penstock.operators.event_time import as_timestamps, times
from penstock.operators.keyed import KeyedTable
from penstock.operators.timed_rows import TimedRows

SINCE = "since"
Numbers = npt.NDArray[np.int64]
_NONE: Numbers = np.empty(0, np.int64)


class Work:
    """The arrays of one call of the kernels, made from the state and put back into it.

    The flows at hand (of segments, of pieces that wait, and ``others``) are numbered anew and
    their values put side by side: a flow is then one stretch of memory.
    """

    def __init__(
        self,
        flows: KeyedTable,
        waiting: TimedRows,
        segments: Numbers,
        data: Any = NO_BYTES,
        others: Numbers = _NONE,
    ) -> None:
        self._flows, self._waiting, self._data, self._held_data = flows, waiting, data, NO_BYTES
        self.held, self.segments = len(waiting), segments
        self.pieces = np.zeros((y.PIECE, y.most_pieces(self.held, len(segments))), np.int64)
        sides = self._load(waiting.frame()) if self.held else _NONE
        rows = np.concatenate([self.pieces[y.P_OWNER, : self.held], segments[:, y.ROW], others])
        self._order = self._number(rows)
        self.pieces[y.P_OWNER, : self.held] = 2 * rows[: self.held] + sides
        segments[:, y.ROW] = rows[self.held : self.held + len(segments)]
        segments[:, y.PLACE] += len(self._held_data)
        self.others = rows[self.held + len(segments) :]
        self.flows = np.empty((len(self._order), len(y.FLOW_VALUES)), np.int64)
        for k, name in enumerate(y.FLOW_VALUES):
            self.flows[:, k] = flows[name][self._order]
        self.ends = np.full((3, 2 * len(self._order)), -1, np.int64)
        self.ends[2] = 0
        self.count = np.zeros(y.COUNTERS, np.int64)
        self.count[[y.OLDEST, y.YOUNGEST]] = -1
        most = y.most_out(self.held, len(segments), len(self._order))
        self.out = np.empty((y.OUT, most), np.int64)

    def _load(self, rows: pl.DataFrame) -> Numbers:
        """Enter the pieces that wait with the row of their flow; gives their directions."""
        held, pieces = rows.height, self.pieces
        ends, self._held_data = byte_buffers(rows["data"])
        pieces[y.P_OWNER, :held] = self._flows.find(rows.select(*FLOW_KEY))
        pieces[y.P_START, :held] = rows["offset"].to_numpy()
        pieces[y.P_STOP, :held] = rows["offset"].to_numpy() + rows["length"].to_numpy()
        pieces[y.P_PLACE, :held], pieces[y.P_SIZE, :held] = ends[:-1], np.diff(ends)
        pieces[y.P_TIME, :held] = times(rows, "time")
        pieces[y.P_SINCE, :held] = self._waiting.times
        return rows["forward"].to_numpy().astype(np.int64)

    def _number(self, rows: Numbers) -> Numbers:
        order = np.empty(len(rows), np.int64)
        numbers = np.full(len(self._flows["is_open"]), -1, np.int64)
        return order[: number(rows, numbers, order)]

    def is_waiting(self) -> npt.NDArray[np.bool_]:
        """Which of the flows at hand have pieces that wait."""
        found: npt.NDArray[np.bool_] = (self.ends[0].reshape(-1, 2) >= 0).any(axis=1)
        return found

    def rows(self, numbers: Numbers) -> Numbers:
        """The rows of flows in the table."""
        return self._order[numbers]

    def save(self) -> None:
        """Put flows and what waits back into the state, and mark the flows whose pieces have gone."""
        within("TCP pieces that wait", int(self.count[y.PIECES]), self.pieces.shape[1])
        within("TCP rows given out", int(self.count[y.OUTS]), self.out.shape[1])
        for k, name in enumerate(y.FLOW_VALUES):
            self._flows[name][self._order] = self.flows[:, k]
        made = self.pieces[:, : int(self.count[y.PIECES])]
        is_held = made[y.P_IS_HELD] == 1
        self._flows.touch(self._order[made[y.P_OWNER, ~is_held] >> 1])
        self._waiting.drop(~is_held[: self.held])
        new = made[:, self.held :][:, is_held[self.held :]]
        if new.shape[1]:
            self._waiting.append(
                self._keys(new[y.P_OWNER]).with_columns(
                    as_timestamps(new[y.P_TIME], "time"),
                    as_timestamps(new[y.P_SINCE], SINCE),
                    pl.Series("offset", new[y.P_START]),
                    pl.Series("length", new[y.P_STOP] - new[y.P_START]),
                    self._bytes(new[y.P_PLACE], new[y.P_SIZE]),
                )
            )

    def given_out(self) -> pl.DataFrame:
        """The rows that the kernels gave out."""
        out = self.out[:, : int(self.count[y.OUTS])]
        reasons = pl.Series("gap_reason", y.GAP_REASONS, dtype=pl.String)
        return self._keys(out[y.O_OWNER]).with_columns(
            as_timestamps(out[y.O_TIME], "time"),
            pl.Series("connection", out[y.O_CONNECTION]).cast(pl.UInt32),
            pl.Series("offset", out[y.O_OFFSET]),
            self._bytes(out[y.O_PLACE], out[y.O_SIZE]),
            pl.Series("gap_bytes", out[y.O_GAP]),
            reasons.gather(out[y.O_WHY]),
        )

    def _keys(self, owners: Numbers) -> pl.DataFrame:
        keys = self._flows.frame(self._order).select(*FLOW_KEY)[owners >> 1]
        return keys.with_columns(pl.Series("forward", (owners & 1).astype(np.bool_)))

    def _bytes(self, places: Numbers, sizes: Numbers) -> pl.Series:
        return gathered("data", places, sizes, self._held_data, self._data)
