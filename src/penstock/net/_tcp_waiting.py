"""Between the kernels of TCP reassembly and the state: the pieces that wait, as arrays and as saved rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames.hashing import byte_buffers
from penstock.net import _tcp_layout as y
from penstock.net._gather import NO_BYTES, gathered
from penstock.net.flows import FLOW_KEY
from penstock.operators.event_time import as_timestamps, times
from penstock.operators.keyed import KeyedTable
from penstock.operators.timed_rows import TimedRows

SINCE = "since"
Numbers = npt.NDArray[np.int64]


class Work:
    """The arrays of one call of the kernels, made from the state and put back into it."""

    def __init__(
        self, flows: KeyedTable, waiting: TimedRows, segments: Numbers, data: Any = NO_BYTES
    ) -> None:
        self._flows, self._waiting, self._data = flows, waiting, data
        self.held = len(waiting)
        self._held_data = NO_BYTES
        most = self.held + 4 * len(segments) + 8  # a segment fills holes, and leaves at most four behind
        self.pieces = np.zeros((y.PIECE, most), np.int64)
        if self.held:
            self._load(waiting.frame())
        self.columns = tuple(flows[name] for name in y.FLOW_VALUES)
        top = len(self.columns[0])
        self.ends = np.full((3, 2 * top), -1, np.int64)
        self.ends[2] = 0
        self.count = np.zeros(y.COUNTERS, np.int64)
        self.count[[y.OLDEST, y.YOUNGEST]] = -1
        self.out = np.empty((y.OUT, most + 4 * len(segments) + 2 * top), np.int64)
        self.segments = segments
        self.segments[:, y.PLACE] += len(self._held_data)

    def _load(self, rows: pl.DataFrame) -> None:
        held, pieces = rows.height, self.pieces
        ends, self._held_data = byte_buffers(rows["data"])
        pieces[y.P_OWNER, :held] = 2 * self._flows.find(rows.select(*FLOW_KEY)) + rows["forward"].to_numpy()
        pieces[y.P_START, :held] = rows["offset"].to_numpy()
        pieces[y.P_STOP, :held] = rows["offset"].to_numpy() + rows["length"].to_numpy()
        pieces[y.P_PLACE, :held], pieces[y.P_SIZE, :held] = ends[:-1], np.diff(ends)
        pieces[y.P_TIME, :held] = times(rows, "time")
        pieces[y.P_SINCE, :held] = self._waiting.times

    @property
    def owners(self) -> Numbers:
        """The directions that still have pieces waiting."""
        made = self.pieces[:, : int(self.count[y.PIECES])]
        waiting: Numbers = made[y.P_OWNER, made[y.P_IS_HELD] == 1]
        return waiting

    def save(self) -> None:
        """Put what waits back into the state, and mark the flows whose pieces have gone."""
        made = self.pieces[:, : int(self.count[y.PIECES])]
        is_held = made[y.P_IS_HELD] == 1
        self._flows.touch(made[y.P_OWNER, ~is_held] >> 1)
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
        keys = self._flows.frame(owners >> 1).select(*FLOW_KEY)
        return keys.with_columns(pl.Series("forward", (owners & 1).astype(np.bool_)))

    def _bytes(self, places: Numbers, sizes: Numbers) -> pl.Series:
        return gathered("data", places, sizes, self._held_data, self._data)
