"""Bytes to blocks of whole records, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.connect.compression import BrokenStream
from penstock.connect.parsing import record_ends

BLOCK_BYTES = 4 << 20
"""Small enough to stay in the cache while it is cut and parsed."""
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
        whole, self._held = self._divided(data)
        if whole:
            yield from self._take(whole)
        elif len(self._held) > MAX_RECORD_BYTES:
            self._passing = (self._position, self._held[:RAW_BYTES])
            self._position += len(self._held)
            self._held = b""

    def end(self, fault: str | None) -> Iterator[Block]:
        """Give out the rest; after a fault the last record is not whole and goes with the reason."""
        if self._passing is not None:
            self._finish_passing()
        if fault is None:
            yield from self._take(self._held)
        else:
            self._reject(self._position, self._held[:RAW_BYTES], fault)

    def _take(self, data: bytes) -> Iterator[Block]:
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
        self._position += len(data)

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

    def _divided(self, data: bytes) -> tuple[bytes, bytes]:
        """What is held and the data, cut after the last record that ends there."""
        if self._quote is None:  # no line break is held: all but the last record is copied only once
            cut = data.rfind(b"\n") + 1
            if not cut:
                return b"", self._held + data
            return b"".join((self._held, memoryview(data)[:cut])), data[cut:]
        held = self._held + data
        ends = record_ends(held, self._quote)
        cut = int(ends[-1]) + 1 if len(ends) else 0
        return held[:cut], held[cut:]
