"""A ready container for rows that wait for time to pass: knows what was added and what was let go."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames.frame import decode, encode
from penstock.frames.types import of_frame
from penstock.operators.event_time import NEVER, Times, times
from penstock.topology.schema import Schema

_FEW = 4096  # chunks smaller than this are put together at once


class TimedRows:
    """Rows in the order of their arrival, with the punctuation up to which they are complete (``clock``).

    Saved as what changed: the rows added, the bound below which rows were dropped, the ids of other rows
    that were dropped or marked. Rows keep their order, so an operator sees the same rows after a restore.
    """

    def __init__(self, time: str) -> None:
        self._time = time
        self._clear()

    def _clear(self) -> None:
        self.clock = NEVER
        self.settled = 0
        """Rows right after the last ``replace``: says when it is worth doing again."""
        self._chunks: list[pl.DataFrame] = []
        self._times = np.empty(0, np.int64)
        self._ids = np.empty(0, np.int64)
        self._marks = np.empty(0, np.bool_)
        self._size = 0
        self._next_id = 0
        self.generation = 0
        """Changes when rows change their positions."""
        self._forget_changes()

    def _forget_changes(self) -> None:
        self._saved = (self.clock, self.settled, self._next_id)
        self._bound = NEVER
        self._gone: list[npt.NDArray[np.int64]] = []
        self._marked: list[npt.NDArray[np.int64]] = []
        self._is_whole = False

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        held = sum(chunk.estimated_size() for chunk in self._chunks)
        return int(held) + self._times.nbytes + self._ids.nbytes + self._marks.nbytes

    @property
    def columns(self) -> list[str]:
        """The names of the columns, if they are known."""
        return self._chunks[-1].columns if self._chunks else []

    @property
    def times(self) -> Times:
        """The event time of each row in µs."""
        return self._times[: self._size]

    @property
    def marks(self) -> npt.NDArray[np.bool_]:
        """Which rows are marked; change them with ``mark``."""
        return self._marks[: self._size]

    @property
    def is_known(self) -> bool:
        """Whether the columns are known: rows, perhaps none, have been appended."""
        return bool(self._chunks)

    def append(self, rows: pl.DataFrame) -> int:
        """Add rows; gives the position of the first."""
        first = self._size
        self._enter(rows, np.arange(self._next_id, self._next_id + rows.height))
        self._next_id += rows.height
        return first

    def frame(self) -> pl.DataFrame:
        """All rows."""
        if not self._size:
            return pl.DataFrame()
        if len(self._chunks) > 1:
            self._chunks = [pl.concat(self._chunks, rechunk=True)]
        return self._chunks[0]

    def gather(self, positions: npt.NDArray[Any]) -> pl.DataFrame:
        """The rows at these positions."""
        return pl.concat(self._chunks, rechunk=False)[positions]

    def before(self, bound: int) -> pl.DataFrame:
        """The rows with a time below the bound."""
        return (
            self._chunks[0].clear() if not self._size else self.frame().filter(pl.Series(self.times < bound))
        )

    def mark(self, positions: npt.NDArray[Any]) -> None:
        """Mark rows, for what the operator wants to know of them later."""
        new = np.unique(positions)
        new = new[~self._marks[new]]
        self._marks[new] = True
        self._marked.append(self._ids[new])

    def drop_before(self, bound: int) -> None:
        """Let go of the rows with a time below the bound."""
        self._bound = max(self._bound, bound)
        self._keep(self.times >= bound)

    def drop(self, gone: npt.NDArray[np.bool_]) -> None:
        """Let go of the rows where the mask is true."""
        if gone.any():
            self._gone.append(self._ids[: self._size][gone])
            self._keep(~gone)

    def replace(self, rows: pl.DataFrame) -> None:
        """Put other rows in the place of all; costs a save of all of them."""
        self._chunks, self._size, self.settled, self._is_whole = [], 0, rows.height, True
        self.generation += 1
        self.append(rows)

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to export since the last export."""
        has_moved = self._saved != (self.clock, self.settled, self._next_id) or self._bound > NEVER
        return has_moved or self._is_whole or bool(self._gone or self._marked)

    def export_base(self) -> bytes:
        """Everything."""
        return self._exported(0, is_whole=True)

    def export_delta(self) -> bytes:
        """What changed since the last export."""
        first = 0 if self._is_whole else int(np.searchsorted(self._ids[: self._size], self._saved[2]))
        return self._exported(first, is_whole=self._is_whole)

    def apply(self, blob: bytes) -> None:
        """Take over an export: a whole replaces everything, a delta continues the export before it."""
        content = pickle.loads(blob)
        if content["is_whole"]:
            self._clear()
        else:
            kept = self.times >= content["bound"]
            kept[np.searchsorted(self._ids[: self._size], content["gone"])] = False
            self._keep(kept)
        if content["rows"] is not None:
            columns, payload = content["rows"]
            self._enter(decode(payload, Schema(columns)), _numbers(content["ids"]))
        self._marks[np.searchsorted(self._ids[: self._size], content["marked"])] = True
        self.clock, self.settled, self._next_id = content["numbers"]
        self._forget_changes()

    def _exported(self, first: int, *, is_whole: bool) -> bytes:
        ids = self._ids[: self._size]
        marked = ids[self.marks] if is_whole else np.concatenate([ids[:0], *self._marked])
        content = {
            "is_whole": is_whole,
            "bound": self._bound,
            "gone": _before(np.concatenate([ids[:0], *self._gone]), self._saved[2]),
            "rows": self._packed(first) if self._chunks and (first < self._size or is_whole) else None,
            "ids": _span(ids[first:]),
            "marked": np.intersect1d(marked, ids) if len(marked) else marked,
            "numbers": (self.clock, self.settled, self._next_id),
        }
        self._forget_changes()
        return pickle.dumps(content, protocol=5)

    def _packed(self, first: int) -> tuple[Any, bytes]:
        """The rows as they travel between nodes: integers no wider than they need, schema apart."""
        rows = pl.concat(self._chunks, rechunk=False)[first:].rechunk()
        return of_frame(rows).columns, encode(rows)

    def _enter(self, rows: pl.DataFrame, ids: npt.NDArray[np.int64]) -> None:
        first, self._size = self._size, self._size + rows.height
        if self._size > len(self._times):
            capacity = max(self._size, 2 * len(self._times))
            for name in ("_times", "_ids", "_marks"):
                grown = np.zeros(capacity, getattr(self, name).dtype)
                grown[:first] = getattr(self, name)[:first]
                setattr(self, name, grown)
        self._times[first : self._size] = times(rows, self._time)
        self._ids[first : self._size] = ids
        self._marks[first : self._size] = False
        if rows.height or not self._chunks:
            self._chunks.append(rows)
        # Few chunks and few copies: a chunk is put to the one before it when it has come to its size.
        while len(self._chunks) > 1 and self._chunks[-2].height <= max(_FEW, 2 * self._chunks[-1].height):
            last = self._chunks.pop()
            self._chunks[-1] = pl.concat([self._chunks[-1], last], rechunk=True)

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        if kept.all():
            return
        self._chunks = [self.frame().filter(pl.Series(kept))]
        size = self._chunks[0].height
        for name in ("_times", "_ids", "_marks"):
            setattr(self, name, getattr(self, name)[: self._size][kept])
        self._size = size
        self.generation += 1


def _before(ids: npt.NDArray[np.int64], bound: int) -> npt.NDArray[np.int64]:
    return ids[ids < bound]


def _span(ids: npt.NDArray[np.int64]) -> range | npt.NDArray[np.int64]:
    """Ids as a range, which most of them are: rows are numbered as they come."""
    if len(ids) and ids[-1] - ids[0] == len(ids) - 1:
        return range(int(ids[0]), int(ids[-1]) + 1)
    return ids.copy()


def _numbers(ids: range | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.arange(ids.start, ids.stop) if isinstance(ids, range) else ids
