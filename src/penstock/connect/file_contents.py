"""The contents of compressed files as a planner knows them: how much they hold, and what is laid down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.connect.expansion import Expansion, Measured, forget_all_before, measure
from penstock.connect.file_pieces import EXPANDED
from penstock.connect.records import Read

AHEAD = 2 * (os.cpu_count() or 1)
"""So many files are measured side by side: decompression lets other threads run."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A compressed file by its number."""

    number: int
    path: str
    codec: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a file may hold to be taken whole."""

    bytes: int
    rows: int | None


class FileContents:
    """Contents of compressed files, for one planner."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._pool: ThreadPoolExecutor | None = None
        self._asked: dict[tuple[int, Bounds], Future[Measured | None]] = {}
        self._expansions: dict[int, Expansion] = {}

    def folder(self, number: int) -> Path:
        """Return where the content of a file is laid down."""
        return self._state_dir / EXPANDED / str(number)

    def of(self, file: Packed) -> Expansion:
        """Return the content of a file. Only the last one stays open."""
        if file.number not in self._expansions:
            self._expansions.clear()
            self._expansions[file.number] = Expansion(file.path, file.codec, self.folder(file.number))
        return self._expansions[file.number]

    def measured(self, files: Sequence[Packed], bounds: Bounds) -> Measured | None:
        """Return how much the first file holds, None if that is out of bounds; begin with the others."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="penstock-measure")
        for key in [key for key in self._asked if key[0] < files[0].number or key[1] != bounds]:
            self._asked.pop(key).cancel()
        for file in files:
            if (file.number, bounds) not in self._asked:
                work = self._pool.submit(measure, file.path, file.codec, bounds.bytes, bounds.rows)
                self._asked[file.number, bounds] = work
        return self._asked[files[0].number, bounds].result()

    def forget_before(self, number: int, position: int) -> None:
        """Remove what was laid down before a place."""
        forget_all_before(self._state_dir, number)
        if number in self._expansions:
            self._expansions[number].forget_before(position)


@contextmanager
def reading(path: str, size: int) -> Iterator[Read]:
    """Read a plain file, of which ``size`` bytes count."""
    with open(path, "rb", buffering=0) as file:
        yield lambda start, count: os.pread(file.fileno(), max(0, min(count, size - start)), start)
