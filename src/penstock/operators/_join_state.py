"""The state of a join: the rows of both sides that can still match, found by key."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import readonly
from penstock.frames.types import of_frame
from penstock.operators import _join_kernels as kernels
from penstock.operators.event_time import times
from penstock.operators.keyed import KeyedTable
from penstock.operators.timed_rows import TimedRows

Positions = npt.NDArray[np.int64]
PAIRS = 1 << 18
"""Pairs that are made at once, however many there are."""
_SLACK = 4  # rows that can match no more are let go when they are one of so many


class Side:
    """The rows of one input, and the rows of each key in the order of their time."""

    def __init__(self, time: str) -> None:
        self.time = time
        self.rows = TimedRows(time)
        self.linked = 0
        """Rows that the lists of their keys contain."""
        self.generation = 0
        self.unlink()

    def unlink(self) -> None:
        """Forget all lists."""
        self.arena, self.used = np.zeros(0, np.int64), 0

    def link(self, keys: Positions, first: int, heads: Any) -> int:
        """Enter rows, the first of which has position `first`; return how many rows were moved for them."""
        keys, times = readonly(keys), readonly(self.rows.times)
        untidy, sorted_sizes = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        counters = np.array([self.used, 0, 0], np.int64)
        done = kernels.enter(keys, 0, first, times, heads, self.arena, untidy, sorted_sizes, counters)
        while done < len(keys):
            self._reserve(int(counters[kernels.USED]))
            done = kernels.enter(keys, done, first, times, heads, self.arena, untidy, sorted_sizes, counters)
        self.used, count = int(counters[kernels.USED]), int(counters[kernels.UNTIDY])
        looked = kernels.tidy(untidy[:count], sorted_sizes[:count], times, heads, self.arena)
        return int(counters[kernels.LOOKED]) + int(looked)

    def keep(self, kept: npt.NDArray[np.bool_], heads: Any) -> None:
        """Take rows that are not kept out of the lists, and number the others anew."""
        arena = np.empty(2 * int(np.count_nonzero(kept)) + 2, np.int64)
        self.used = int(kernels.keep(readonly(kept), heads, self.arena, arena))
        self.arena = arena

    def _reserve(self, used: int) -> None:
        """Make room for a list of any size that may have to move, and for half as much again."""
        grown = np.zeros(used + used // 2 + 2 * len(self.rows) + 64, np.int64)
        grown[:used] = self.arena[:used]
        self.arena = grown


class JoinState:
    """Both sides and one index over their keys. The index is made anew from the rows when they moved."""

    def __init__(self, on: tuple[str, ...], time: str, other_time: str) -> None:
        self._on = on
        self.left, self.right = Side(time), Side(other_time)
        self._index: KeyedTable | None = None
        self.looked = 0
        """Rows that were compared or moved so far, which is the work that a join costs."""

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left, self.right

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        links = sum(side.rows.nbytes + side.arena.nbytes for side in self.sides)
        return links + (self._index.nbytes if self._index is not None else 0)

    def __len__(self) -> int:
        return len(self.left.rows) + len(self.right.rows)

    def take(self, batch: pl.DataFrame, side: Side, within: int) -> Iterator[tuple[Positions, Positions]]:
        """Add rows to a side; yield the pairs that they make with the other side, by position, in pieces.

        The pairs of a row follow one another by the other row's time, then by its arrival.
        """
        other = self.right if side is self.left else self.left
        self._check(batch, other)
        first = side.rows.append(batch)
        if not batch.height:
            return
        index = self._current()
        keys = self._link(batch, side, first, index)
        for mine, theirs in self._pairs(
            keys, times(batch, side.time), index[_head(self, other)], other, within
        ):
            yield mine + first, theirs

    def _pairs(
        self, keys: Positions, moments: Any, heads: Any, other: Side, within: int
    ) -> Iterator[tuple[Positions, Positions]]:
        begins, counts = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        others = readonly(other.rows.times)
        self.looked += int(
            kernels.find(
                readonly(keys), readonly(moments), heads, other.arena, others, within, begins, counts
            )
        )
        ends = np.cumsum(counts)
        for at in range(0, int(ends[-1]), PAIRS):
            size = min(PAIRS, int(ends[-1]) - at)
            mine, theirs = np.empty(size, np.int64), np.empty(size, np.int64)
            row = int(np.searchsorted(ends, at, "right"))
            kernels.fill(begins, counts, other.arena, row, at - int(ends[row] - counts[row]), mine, theirs)
            yield mine, theirs

    def drop_before(self, bound: int) -> None:
        """Let go of rows that can match no more; at most a quarter of what is held stays a little longer."""
        for side in self.sides:
            gone = int(np.count_nonzero(side.rows.times < bound))
            if gone * _SLACK > len(side.rows):
                self._drop(side, bound)
        if self._index is not None and self._dead_keys() * 2 > len(self._index):
            self._index = None  # the next batch makes it anew, without the keys that have no rows

    def _drop(self, side: Side, bound: int) -> None:
        if self._index is not None and side.generation == side.rows.generation:
            side.keep(side.rows.times >= bound, self._index[_head(self, side)])
            side.generation += 1
        side.rows.drop_before(bound)
        side.linked = len(side.rows)
        if not side.linked:
            side.unlink()

    def _dead_keys(self) -> int:
        assert self._index is not None
        return len(self._index) - int(np.count_nonzero(self._index["left"] | self._index["right"]))

    def frame(self) -> pl.DataFrame:
        """All rows of both sides, and which side each is of."""
        held = [
            (name, side.rows) for name, side in (("left", self.left), ("right", self.right)) if len(side.rows)
        ]
        rows = [side.frame().with_columns(pl.lit(name).alias("join.side")) for name, side in held]
        return pl.concat(rows, how="diagonal") if rows else pl.DataFrame()

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to export since the last export."""
        return any(side.rows.is_changed for side in self.sides)

    def export_base(self) -> bytes:
        """Everything; the index is not part of it."""
        return pickle.dumps([side.rows.export_base() for side in self.sides])

    def export_delta(self) -> bytes:
        """What changed since the last export."""
        return pickle.dumps([s.rows.export_delta() if s.rows.is_changed else None for s in self.sides])

    def apply(self, blob: bytes) -> None:
        """Take over an export."""
        for side, part in zip(self.sides, pickle.loads(blob), strict=True):
            if part is not None:
                side.rows.apply(part)
        self._index = None

    def _check(self, batch: pl.DataFrame, other: Side) -> None:
        if not other.rows.is_known:
            return
        theirs = other.rows.gather(np.empty(0, np.int64)).schema
        wrong = [name for name in self._on if batch.schema[name] != theirs[name]]
        if wrong:
            found = f"{batch.schema[wrong[0]]} and {theirs[wrong[0]]}"
            raise TypeError(f"the two sides of the join have '{wrong[0]}' as {found}: cast one of them")

    def _current(self) -> KeyedTable:
        """The index, made anew if rows have moved since."""
        moved = any(side.generation != side.rows.generation for side in self.sides)
        if self._index is None or moved:
            known = next(side.rows for side in self.sides if side.rows.is_known)
            key = of_frame(known.gather(np.empty(0, np.int64)).select(self._on))
            self._index = KeyedTable(dict(key.columns), {"left": int, "right": int})
            for side in self.sides:
                side.unlink()
                side.linked, side.generation = 0, side.rows.generation
        for side in self.sides:
            if side.linked == 0 and len(side.rows):
                self._link(side.rows.frame(), side, 0, self._index)
        return self._index

    def _link(self, rows: pl.DataFrame, side: Side, first: int, index: KeyedTable) -> Positions:
        """Enter rows into the index; gives the row of each key there, -1 for a key with a null in it."""
        keys = index.rows(rows.select(self._on))
        nulls = [name for name in self._on if rows[name].null_count()]
        if nulls:
            keys[rows.select(pl.any_horizontal(pl.col(nulls).is_null())).to_series().to_numpy()] = -1
        if first == side.linked:
            self.looked += side.link(keys, first, index[_head(self, side)])
            side.linked = first + rows.height
        return keys


def _head(state: JoinState, side: Side) -> str:
    return "left" if side is state.left else "right"
