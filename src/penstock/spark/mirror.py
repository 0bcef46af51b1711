"""Values of state logs, kept a second time in files that all workers of an executor share.

A slice is served by whichever worker is free, and a worker that did not serve it last must read what
the other one wrote. Spark gives out a value by way of a string of its characters, which was half of all that
the JVM computed for the application tracker. A file is read at the speed of memory.

The store remains the only truth. The log's stamps tell whether what was read continues it; if not, the
files are left aside and the store is read.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from penstock.engine.state_log import Shelf

SMALL_BYTES = 4 << 10
"""Values up to this size are read from the store as fast."""


class Mirrored:
    """A shelf whose large values also lie in a folder."""

    def __init__(self, shelf: Shelf, folder: Path) -> None:
        self._shelf = shelf
        self._folder = folder
        self._is_trusted = True
        self._is_swept = False

    def head(self) -> bytes | None:
        return self._shelf.head()

    def put_head(self, head: bytes) -> None:
        self._shelf.put_head(head)

    def drop_head(self) -> None:
        self._shelf.drop_head()

    def get(self, number: int) -> bytes | None:
        if self._is_trusted:
            with suppress(OSError):
                return self._file(number).read_bytes()
        return self._shelf.get(number)

    def put(self, number: int, value: bytes) -> None:
        self._shelf.put(number, value)
        with suppress(OSError):  # without room for the copy the store is read
            if len(value) > SMALL_BYTES:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file(number).write_bytes(value)
            else:
                self._file(number).unlink(missing_ok=True)

    def drop(self, number: int) -> None:
        self._shelf.drop(number)
        with suppress(OSError):
            if not self._is_swept:
                self._sweep(number)
            self._file(number).unlink(missing_ok=True)

    def distrust(self) -> bool:
        was_trusted, self._is_trusted = self._is_trusted, False
        return was_trusted

    def _sweep(self, first: int) -> None:
        """Drop what was dropped from the log while another executor served the slice."""
        self._is_swept = True
        for file in self._folder.iterdir():
            if int(file.name) < first:
                file.unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._folder / str(number)
