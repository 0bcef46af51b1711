"""The content of a compressed file that is too large for one epoch, laid down in segments beside the planner.

A place in a compressed stream can be reached only through everything before it. So the planner decompresses
such a file once, as far as epochs ask for it, and writes the content into segments of `SEGMENT_BYTES`; the
workers read these side by side, and a commit removes them. Segments are only a cache: one that is missing or
damaged is made again from the file, with the same bytes, at the cost of decompressing it from its beginning.
"""

from __future__ import annotations

import json
import shutil
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.connect.compression import BrokenStream, Unpacking
from penstock.connect.file_pieces import EXPANDED
from penstock.connect.records import count_breaks

SEGMENT_BYTES = 8 << 20
TO_END = 1 << 62
"""Stands for the end of a content whose length nobody knows yet."""
_CHUNK_BYTES = 4 << 20
_MOST_SEGMENTS = 64
"""Only so many are laid down to learn how much is left of a content."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a content, and what must be known of everything before it."""

    begin: int
    breaks: int
    """Line breaks before it."""
    packed: int
    """Bytes of the compressed file that were read by its end."""
    is_last: bool
    fault: str | None
    """Why nothing more can be read."""
    data: bytes


def read_segment(folder: Path, index: int) -> Segment | None:
    """Return a segment that was laid down; None if it is missing or damaged."""
    try:
        stored = _file(folder, index).read_bytes()
    except OSError:
        return None
    seal, _, rest = stored.partition(b"\n")
    if seal != b"%08x" % zlib.crc32(rest):
        return None
    head, _, data = rest.partition(b"\n")
    begin, breaks, packed, is_last, fault = json.loads(head)
    return Segment(begin, breaks, packed, is_last, fault, data)


def _write_segment(folder: Path, index: int, segment: Segment) -> None:
    values = (segment.begin, segment.breaks, segment.packed, segment.is_last, segment.fault)
    rest = json.dumps(values).encode() + b"\n" + segment.data
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".{uuid.uuid4().hex}.tmp"
    scratch.write_bytes(b"%08x\n" % zlib.crc32(rest) + rest)  # not synced: it can be made again
    scratch.replace(_file(folder, index))


def _file(folder: Path, index: int) -> Path:
    return folder / f"{index:08d}.segment"


class Expansion:
    """The planner's view of one content: it is decompressed as far as somebody reads."""

    def __init__(self, path: str, codec: str, folder: Path) -> None:
        self._path = path
        self._codec = codec
        self._folder = folder
        self._stream: Iterator[Segment] | None = None
        self._next = 0
        """The index of the segment that the stream makes next."""
        self._recent: tuple[int, Segment] | None = None

    def read(self, start: int, count: int) -> bytes:
        """Return some bytes from a place on, fewer where a segment ends; none at the end."""
        index, skipped = divmod(start, SEGMENT_BYTES)
        return self._segment(index).data[skipped : skipped + count]

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes between two places. Raises BrokenStream at a fault that lies before ``end``."""
        while start < end:
            segment = self._segment(start // SEGMENT_BYTES)
            data = segment.data[start - segment.begin : min(end, start + _CHUNK_BYTES) - segment.begin]
            if data:
                yield data
                start += len(data)
            elif segment.fault is not None:
                raise BrokenStream(segment.fault)
            else:
                return

    def end(self, position: int) -> int:
        """Return where the content ends, or a place far behind ``position`` if it goes on."""
        segment = self._segment(position // SEGMENT_BYTES)
        last = position // SEGMENT_BYTES + _MOST_SEGMENTS
        while not segment.is_last and segment.begin // SEGMENT_BYTES < last:
            segment = self._segment(segment.begin // SEGMENT_BYTES + 1)
        return segment.begin + len(segment.data)

    def packed_before(self, position: int) -> int | None:
        """Return how much of the file was read for what lies before a place, if that was laid down."""
        index = max(0, position - 1) // SEGMENT_BYTES
        if self._recent is not None and self._recent[0] == index:
            return self._recent[1].packed
        segment = read_segment(self._folder, index)
        return None if segment is None else segment.packed

    def forget_before(self, position: int) -> None:
        """Remove the segments that lie wholly before a place."""
        for path in self._folder.glob("*.segment"):
            if int(path.stem) < position // SEGMENT_BYTES:
                path.unlink(missing_ok=True)

    def _segment(self, index: int) -> Segment:
        if self._recent is not None and self._recent[1].is_last and index > self._recent[0]:
            return _nothing(index, self._recent[1].fault)
        if self._recent is None or self._recent[0] != index:
            self._recent = (index, read_segment(self._folder, index) or self._made(index))
        return self._recent[1]

    def _made(self, index: int) -> Segment:
        """Decompress up to a segment and write it. Behind the end there are only empty ones."""
        if self._stream is None or self._next > index:
            self._stream, self._next = segments(self._path, self._codec), 0
        fault = None
        for segment in self._stream:
            self._next += 1
            if self._next > index:
                _write_segment(self._folder, index, segment)
                return segment
            fault = segment.fault
        self._stream = None
        return _nothing(index, fault)


def _nothing(index: int, fault: str | None) -> Segment:
    """Return what lies behind the end of a content."""
    return Segment(index * SEGMENT_BYTES, 0, 0, is_last=True, fault=fault, data=b"")


def segments(path: str, codec: str) -> Iterator[Segment]:
    """Yield a content from its beginning, a segment at a time."""
    stream = Unpacking(path, codec)
    held = bytearray()
    begin, breaks, fault = 0, 0, None
    try:
        for chunk in stream:
            held += chunk
            while len(held) > SEGMENT_BYTES:  # not at once when it is full: the next one may be the last
                data = bytes(memoryview(held)[:SEGMENT_BYTES])
                yield Segment(begin, breaks, stream.packed, is_last=False, fault=None, data=data)
                breaks += count_breaks(data)
                begin += SEGMENT_BYTES
                del held[:SEGMENT_BYTES]
    except BrokenStream as error:
        fault = str(error)
    yield Segment(begin, breaks, stream.packed, is_last=True, fault=fault, data=bytes(held))


class Content:
    """A worker's view of a content: segments where they are laid down, otherwise the file itself."""

    def __init__(self, path: str, codec: str, folder: str) -> None:
        self._path = path
        self._codec = codec
        self._folder = Path(folder) if folder else None

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes between two places. Raises BrokenStream at a fault that lies before ``end``."""
        while start < end:
            segment = self._laid_down(start)
            if segment is None or not (segment.is_last or start < segment.begin + len(segment.data)):
                yield from self._from_the_file(start, end)
                return
            stop = min(end, segment.begin + len(segment.data))
            for place in range(start, stop, _CHUNK_BYTES):
                yield segment.data[place - segment.begin : min(stop, place + _CHUNK_BYTES) - segment.begin]
            start = max(start, stop)
            if segment.is_last:
                if segment.fault is not None and start < end:
                    raise BrokenStream(segment.fault)
                return

    def breaks_before(self, position: int) -> int:
        """Count the line breaks before a place."""
        segment = self._laid_down(position)
        if segment is not None:
            return segment.breaks + count_breaks(segment.data[: position - segment.begin])
        count = 0
        try:
            for chunk in self._from_the_file(0, position):
                count += count_breaks(chunk)
        except BrokenStream:
            pass
        return count

    def _laid_down(self, position: int) -> Segment | None:
        return None if self._folder is None else read_segment(self._folder, position // SEGMENT_BYTES)

    def _from_the_file(self, start: int, end: int) -> Iterator[bytes]:
        place = 0
        for chunk in Unpacking(self._path, self._codec):
            if place + len(chunk) > start:
                yield chunk[max(0, start - place) : end - place]
            place += len(chunk)
            if place >= end:
                return


@dataclass(frozen=True, slots=True)
class Measured:
    """How much a compressed file holds."""

    bytes: int
    rows: int


def measure(path: str, codec: str, most_bytes: int, most_rows: int | None) -> Measured | None:
    """Return how much a file holds, without keeping any of it; None if that is more than these bounds."""
    size = breaks = 0
    last = b"\n"
    try:
        for chunk in Unpacking(path, codec):
            size += len(chunk)
            breaks += count_breaks(chunk) if most_rows is not None else 0
            last = chunk[-1:]
            if size > most_bytes or (most_rows is not None and breaks > most_rows):
                return None
    except BrokenStream:
        pass
    rows = breaks + (last != b"\n")
    return None if most_rows is not None and rows > most_rows else Measured(size, rows)


def forget_all_before(folder: Path, number: int) -> None:
    """Remove the segments of all files before one."""
    for path in (folder / EXPANDED).glob("[0-9]*"):
        if int(path.name) < number:
            shutil.rmtree(path, ignore_errors=True)
