"""Bytes to blocks of whole records, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.connect.compression import BrokenStream
from penstock.connect.parsing import record_ends

BLOCK_BYTES = 16 << 20
MAX_RECORD_BYTES = 16 << 20
RAW_BYTES = 64 << 10  # of a record that is too long, this much is kept for inspection
_TOO_LONG = f"the record is longer than {MAX_RECORD_BYTES >> 20} MiB; its beginning is kept"

RejectAt = Callable[[int, bytes, str], None]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records; ``position`` is the place of the first byte in the (decompressed) file."""

    position: int
    data: bytes


def byte_range(path: str, start: int, end: int) -> Iterator[bytes]:
    """A part of a file in chunks; ends early where the file does."""
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(BLOCK_BYTES, end - start))):
            start += len(chunk)
            yield chunk


def whole_records(
    chunks: Iterator[bytes], position: int, quote: bytes | None, reject: RejectAt
) -> Iterator[Block]:
    """Cut at the ends of records. A fault of the stream and records that are too long are rejected."""
    cutter = _Cutter(position, quote, reject)
    fault = None
    try:
        for chunk in _gathered(chunks):
            yield from cutter.feed(chunk)
    except BrokenStream as error:
        fault = f"the rest of the file cannot be read: {error}"
    yield from cutter.end(fault)


def _gathered(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Small chunks joined to about a block; a fault comes after what was read before it."""
    held: list[bytes] = []
    try:
        for chunk in chunks:
            held.append(chunk)
            if sum(map(len, held)) >= BLOCK_BYTES:
                yield b"".join(held)
                held = []
    except BrokenStream:
        yield b"".join(held)
        raise
    yield b"".join(held)


class _Cutter:
    """Holds the unfinished record between chunks."""

    def __init__(self, position: int, quote: bytes | None, reject: RejectAt) -> None:
        self._position = position
        self._quote = quote
        self._reject = reject
        self._held = b""
        self._passing: tuple[int, bytes] | None = None  # where a record that is too long begins, and how

    def feed(self, data: bytes) -> Iterator[Block]:
        if self._passing is not None:
            data = self._pass_over(data)
        self._held += data
        cut = self._last_end()
        if cut:
            yield from self._take(cut)
        elif len(self._held) > MAX_RECORD_BYTES:
            self._passing = (self._position, self._held[:RAW_BYTES])
            self._position += len(self._held)
            self._held = b""

    def end(self, fault: str | None) -> Iterator[Block]:
        """Give out the rest; after a fault the last record is not whole and goes with the reason."""
        if self._passing is not None:
            self._finish_passing()
        yield from self._take(len(self._held) if fault is None else self._last_end())
        if fault is not None:
            self._reject(self._position, self._held[:RAW_BYTES], fault)

    def _take(self, count: int) -> Iterator[Block]:
        data, self._held = self._held[:count], self._held[count:]
        begin = 0
        if len(data) > MAX_RECORD_BYTES:  # judged by the record alone, never by where chunks ended
            ends = np.append(record_ends(data, self._quote), len(data) - 1)
            for i in np.flatnonzero(np.diff(ends, prepend=-1) > MAX_RECORD_BYTES + 1).tolist():
                at = int(ends[i - 1]) + 1 if i else 0
                if at > begin:
                    yield Block(self._position + begin, data[begin:at])
                self._reject(self._position + at, data[at : at + RAW_BYTES], _TOO_LONG)
                begin = int(ends[i]) + 1
        if begin < len(data):
            yield Block(self._position + begin, data[begin:])
        self._position += count

    def _pass_over(self, data: bytes) -> bytes:
        cut = data.find(b"\n") + 1
        self._position += cut or len(data)
        if not cut:
            return b""
        self._finish_passing()
        return data[cut:]

    def _finish_passing(self) -> None:
        assert self._passing is not None
        self._reject(*self._passing, _TOO_LONG)
        self._passing = None

    def _last_end(self) -> int:
        """The place after the last line break that ends a record, 0 if there is none."""
        if self._quote is None:
            return self._held.rfind(b"\n") + 1
        ends = record_ends(self._held, self._quote)
        return int(ends[-1]) + 1 if len(ends) else 0
