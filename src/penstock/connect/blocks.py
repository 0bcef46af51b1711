"""Bytes to blocks of whole records, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.connect import records
from penstock.connect.compression import BrokenStream
from penstock.connect.records import Ends, RecordScan, count_breaks

BLOCK_BYTES = 4 << 20
"""Small enough to stay in the cache while it is cut and parsed."""
RAW_BYTES = 64 << 10  # of a record that is too long, this much is kept for inspection

RejectAt = Callable[[int, int, bytes, str], None]
"""Takes a place, the line breaks before it since reading began if they are counted, bytes and a reason."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records; ``position`` is the place of the first byte in the (decompressed) file."""

    position: int
    data: bytes
    breaks: int = 0
    """Line breaks between where the reading began and this block, if they are counted."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where reading begins; ``inside``: in the middle of a record that is too long, reported before."""

    position: int
    inside: bool = False
    counts_breaks: bool = False
    """Count line breaks on the way, for contents that cannot be read again to count them."""


def byte_range(path: str, start: int, end: int) -> Iterator[bytes]:
    """A part of a file in chunks; ends early where the file does."""
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(BLOCK_BYTES, end - start))):
            start += len(chunk)
            yield chunk


def whole_records(
    chunks: Iterator[bytes], begin: Begin, quote: bytes | None, reject: RejectAt
) -> Iterator[Block]:
    """Cut at the ends of records. A fault of the stream and records that are too long are rejected."""
    cutter = _Cutter(begin, quote, reject)
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
    """Buffers the unfinished record between chunks; of one that is too long only its beginning."""

    def __init__(self, begin: Begin, quote: bytes | None, reject: RejectAt) -> None:
        self._scan = RecordScan(begin.position, quote, inside=begin.inside)
        self._begin = begin.position
        self._is_dropped = begin.inside
        self._count = count_breaks if begin.counts_breaks else _no_breaks
        self._reject = reject
        self._held = b""
        self._breaks = 0
        """Line breaks before the unfinished record, and in it."""
        self._breaks_inside = 0

    def feed(self, data: bytes) -> Iterator[Block]:
        start = self._scan.position
        is_short = not self._is_dropped and start + len(data) - self._begin <= records.MAX_RECORD_BYTES
        ends = self._scan.last(data) if is_short else self._scan.feed(data)  # short: no record is too long
        if not len(ends):
            self._hold(data)
            return
        cut = int(ends[-1]) - start
        yield from self._take(ends, b"".join((self._held, memoryview(data)[:cut])))
        self._breaks += self._breaks_inside + self._count(memoryview(data)[:cut])
        self._breaks_inside, self._held = 0, b""
        self._begin, self._is_dropped = int(ends[-1]), False
        self._hold(data[cut:])

    def end(self, fault: str | None) -> Iterator[Block]:
        """Give out the rest; after a fault the last record is not whole and goes with the reason."""
        here, is_long = self._scan.position, self._is_too_long()
        if is_long and not self._is_dropped:
            self._reject(self._begin, self._breaks, self._held, _too_long())
        if fault is not None and (is_long or self._is_dropped):
            self._reject(here, self._breaks + self._breaks_inside, b"", fault)
        elif fault is not None:
            self._reject(self._begin, self._breaks, self._held[:RAW_BYTES], fault)
        elif self._held and not is_long and not self._is_dropped:
            yield Block(self._begin, self._held, self._breaks)

    def _hold(self, data: bytes) -> None:
        self._breaks_inside += self._count(data)
        if not self._is_dropped and len(self._held) <= records.MAX_RECORD_BYTES:
            self._held += data
        if self._is_dropped or self._is_too_long():
            self._held = self._held[: _kept_bytes()]

    def _is_too_long(self) -> bool:
        return self._scan.position - self._begin > records.MAX_RECORD_BYTES

    def _take(self, ends: Ends, data: bytes) -> Iterator[Block]:
        """The records that end here but for those that are too long. ``data`` begins with the first one."""
        too_long = np.flatnonzero(np.diff(ends, prepend=self._begin) - 1 > records.MAX_RECORD_BYTES).tolist()
        if self._is_dropped and 0 not in too_long:
            too_long = [0, *too_long]
        base = int(ends[-1]) - len(data)  # not where the first record begins if that was cut short
        run, breaks = self._begin, self._breaks
        for i in too_long:
            at, end = int(ends[i - 1]) if i else self._begin, int(ends[i])
            if at > run:
                whole = data[run - base : at - base]
                yield Block(run, whole, breaks)
                breaks += self._count(whole)
            record = data[max(0, at - base) : end - base]
            if i or not self._is_dropped:
                self._reject(at, breaks, record[: _kept_bytes()], _too_long())
            breaks += self._count(record) if i else self._breaks_of_first(data, end - base)
            run = end
        if run < int(ends[-1]):
            yield Block(run, data[run - base :], breaks)

    def _breaks_of_first(self, data: bytes, end: int) -> int:
        """Count the line breaks of the first record, of which ``data`` may have lost the middle."""
        return self._breaks_inside + self._count(memoryview(data)[len(self._held) : end])


def _no_breaks(data: bytes | memoryview) -> int:
    return 0


def _kept_bytes() -> int:
    return min(RAW_BYTES, records.MAX_RECORD_BYTES)


def _too_long() -> str:
    return f"the record is longer than {records.MAX_RECORD_BYTES >> 20} MiB; its beginning is kept"
