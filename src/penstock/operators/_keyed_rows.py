"""Which rows of a `KeyedTable` are in use, free and changed."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from penstock.operators._keyed_kernels import CHANGED, COUNTERS, FREE, LIVE, NULL_ROW, POPPED, ROWS

Numbers: TypeAlias = npt.NDArray[np.int64]
FIRST = 64


class Rows:
    """Arrays by row number and counters, both shared with the kernels; arrays are replaced when they grow."""

    def __init__(self) -> None:
        self.live = np.zeros(FIRST, np.uint8)
        self.mark = np.zeros(FIRST, np.uint8)
        self.changed = np.zeros(FIRST, np.int32)
        self.free = np.zeros(FIRST, np.int32)
        self.counters = np.zeros(COUNTERS, np.int64)
        self.counters[NULL_ROW] = -1

    def __len__(self) -> int:
        return int(self.counters[LIVE])

    @property
    def top(self) -> int:
        """One more than the greatest row number ever used."""
        return int(self.counters[ROWS])

    @property
    def popped(self) -> int:
        """How many free rows were used again since the last export."""
        return int(self.counters[POPPED])

    @property
    def capacity(self) -> int:
        return len(self.live)

    @property
    def is_full(self) -> bool:
        return self.top >= self.capacity and self.counters[FREE] == 0

    @property
    def nbytes(self) -> int:
        return self.live.nbytes + self.mark.nbytes + self.changed.nbytes + self.free.nbytes

    @property
    def marks(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        return self.mark, self.changed, self.counters

    def grow(self, capacity: int) -> None:
        for name in ("live", "mark", "changed", "free"):
            setattr(self, name, resized(getattr(self, name), capacity))

    def numbers(self) -> Numbers:
        """All live rows, ascending."""
        return np.flatnonzero(self.live[: self.top])

    def changed_numbers(self) -> Numbers:
        """The live rows that are marked, ascending; costs what changed."""
        count = int(self.counters[CHANGED])
        if count * 8 > self.top:
            return np.flatnonzero(self.mark[: self.top] & self.live[: self.top])
        marked: Numbers = np.sort(self.changed[:count]).astype(np.int64)
        kept: Numbers = marked[self.live[marked] == 1]
        return kept

    def free_numbers(self) -> Numbers:
        """The free rows; the last one is used next."""
        numbers: Numbers = self.free[: int(self.counters[FREE])].astype(np.int64)
        return numbers

    def release(self, numbers: Numbers) -> None:
        """Let these rows be used again."""
        end = int(self.counters[FREE])
        self.free[end : end + len(numbers)] = numbers
        self.counters[FREE] = end + len(numbers)

    def restore(self, new: Numbers, top: int, popped: int) -> None:
        """Take new rows into use as an export says."""
        self.live[new] = 1
        self.counters[LIVE] += len(new)
        self.counters[ROWS] = top
        self.counters[FREE] -= popped

    def drop(self, numbers: Numbers) -> None:
        self.live[numbers] = 0
        self.counters[LIVE] -= len(numbers)

    def unmark(self) -> None:
        """Forget what changed."""
        self.mark[self.changed[: int(self.counters[CHANGED])]] = 0
        self.counters[CHANGED] = self.counters[POPPED] = 0


def resized(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """The array with at least this length; what is new has the fill value."""
    if len(array) >= size:
        return array
    grown = np.zeros(size, array.dtype)  # the system gives zeros without memory until they are written
    grown[: len(array)] = array
    if fill:
        grown[len(array) :] = fill
    return grown
