"""Where the bytes of a capture come from: a part of a plain file, or a compressed one."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from penstock.connect.compression import BrokenStream

_MAGICS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


class Feed(Protocol):
    """Gives out bytes in order."""

    def readinto(self, room: memoryview) -> int:
        """Fill the room from its front; 0 when there is nothing more."""


class FileFeed:
    """A plain file from a place up to ``size``. What was added to the file since is not read."""

    def __init__(self, path: str, start: int, size: int) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close()
        self._file.seek(start)
        self._left = max(0, size - start)

    def readinto(self, room: memoryview) -> int:
        """Fill the room; ends where the file did when it was taken."""
        count = self._file.readinto(room[: self._left]) or 0
        self._left -= count
        return count

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class BytesFeed:
    """Chunks of bytes, such as a decompressed file. ``fault`` says why it ended early, if it did."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = memoryview(b"")
        self.fault: str | None = None

    def readinto(self, room: memoryview) -> int:
        """Fill the room with the next bytes."""
        while not len(self._held):
            try:
                chunk = next(self._chunks, None)
            except BrokenStream as error:
                self.fault, chunk = f"the rest of the file cannot be decompressed: {error}", None
            if chunk is None:
                self._chunks = iter(())
                return 0
            self._held = memoryview(chunk)
        count = min(len(room), len(self._held))
        room[:count] = self._held[:count]
        self._held = self._held[count:]
        return count

    def close(self) -> None:
        """Let go of the stream."""
        self._chunks = iter(())


def mapped(path: str, size: int, start: int = 0, most: int | None = None) -> npt.NDArray[np.uint8]:
    """A plain file of ``size`` bytes, or a part of it, where the system holds it: no copy is made.

    ``start`` is a multiple of the system's page size.

    A file that is cut short while this is read ends the process, as with any mapped file.
    """
    with open(path, "rb", buffering=0) as file:
        count = min(size, os.fstat(file.fileno()).st_size) - start
        count = count if most is None else min(count, most)
        if count <= 0:
            return np.empty(0, np.uint8)
        memory = mmap.mmap(file.fileno(), count, access=mmap.ACCESS_READ, offset=start)
    memory.madvise(mmap.MADV_SEQUENTIAL)
    return np.frombuffer(memory, np.uint8)


def codec_by_content(path: str) -> str | None:
    """How a file is compressed, from its first bytes: names of captures often do not tell."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(4)
    except OSError:
        return None
    return next((codec for magic, codec in _MAGICS.items() if head.startswith(magic)), None)


def read_at(path: str, start: int, count: int) -> bytes:
    """Some bytes of a plain file; fewer where it ends, none if it is gone."""
    try:
        with open(path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), count, start)
    except OSError:
        return b""
