"""Files that are long gone are dropped from the index, which would otherwise grow as long as files come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from penstock.connect.file_index import FileIndex

KEPT_EPOCHS = 32
"""Entries that so many epochs may name stay: more than Spark keeps of its log of offsets."""
GONE_NS = 7 * 24 * 3600 * 1_000_000_000
"""A file is forgotten when it has been away for this long: a disk may be, and come back."""
_LOOK_EVERY_NS = 3600 * 1_000_000_000
_WORTH_IT = 1_000


class Forgetting:
    """What has been seen of the absence of files, for one planner."""

    def __init__(
        self, index: FileIndex, find: Callable[[], Iterable[str]], clock_ns: Callable[[], int]
    ) -> None:
        """``find`` returns the names of all files that are there."""
        self._index = index
        self._find = find
        self._clock_ns = clock_ns
        self._ends: deque[int] = deque(maxlen=KEPT_EPOCHS)
        self._looked_ns: int | None = None
        self._missing: dict[str, int] = {}
        """Since when each file has been away."""

    def committed(self, number: int) -> None:
        """Learn that an epoch was committed that ends in the file of this number."""
        self._ends.append(number)
        now = self._clock_ns()
        if len(self._ends) < KEPT_EPOCHS or (
            self._looked_ns is not None and now - self._looked_ns < _LOOK_EVERY_NS
        ):
            return
        self._looked_ns = now
        self._look(now)
        gone = [name for name, since_ns in self._missing.items() if now - since_ns >= GONE_NS]
        if len(gone) >= max(_WORTH_IT, sum(1 for _ in self._index.paths()) // 4):
            self._index.forget(self._ends[0], frozenset(gone))
            self._missing.clear()

    def _look(self, now: int) -> None:
        there = set(self._find())
        known = set(self._index.paths())
        if known.isdisjoint(there):  # as if a disk was not mounted: that says nothing about the files
            self._missing.clear()
            return
        missing = known - there
        self._missing = {name: self._missing.get(name, now) for name in missing}
