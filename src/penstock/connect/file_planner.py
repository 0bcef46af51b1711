"""Cuts the files that arrive into epochs and splits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.connect.compression import codec_of
from penstock.connect.expansion import TO_END, Measured
from penstock.connect.file_contents import AHEAD, Bounds, FileContents, Packed, reading
from penstock.connect.file_cuts import (
    Cut,
    cut_lines,
    ends_of_shares,
    last_break,
    line_end_after,
    share_out,
)
from penstock.connect.file_forgetting import Forgetting
from penstock.connect.file_index import FileEntry, FileIndex
from penstock.connect.file_pieces import Piece, end_of_lap, require_there
from penstock.connect.file_scan import find, news, root_is_there, root_of
from penstock.connect.parquet_cuts import cut_groups, group_end, rows_of
from penstock.connect.parquet_sizes import GroupSize, group_sizes
from penstock.connect.records import Read, Room, cut_records
from penstock.connect.source import END_OF_TIME, Backlog, Limit, Offset, SourcePlanner, Split
from penstock.errors import SourceUnavailable
from penstock.topology.specs import EPOCH_BYTES

if TYPE_CHECKING:
    from penstock.connect.files import Files

_FULL_SCAN_NS = 30_000_000_000
_SETTLED_NS = 1_000_000_000
_MOST_FILES = 10_000
_COMPRESSED_WEIGHT = 5


class FilesPlanner(SourcePlanner):
    """Keeps a numbered index of files; an offset is a number and a place in that file."""

    foresees = True

    min_split_bytes = 256 << 10

    def __init__(self, source: Files, state_dir: Path, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._source = source
        self._index = FileIndex(Path(state_dir) / "files.jsonl")
        self._clock_ns = clock_ns
        self._scanned: tuple[int, int] | None = None  # the folder's time and the clock at the last scan
        self._groups: dict[int, list[GroupSize]] = {}
        self._contents = FileContents(Path(state_dir))
        self._limit = Limit()
        self._forgetting = Forgetting(self._index, lambda: (f.name for f in find(source.path)), clock_ns)

    def initial(self) -> Offset:
        return {"file": 0, "position": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        self._scan()
        number, position, inside = start["file"], start["position"], start.get("inside", False)
        self._check(number)
        self._limit = limit
        rows, most_bytes, first = limit.rows, limit.bytes, True
        stop = min(len(self._index), number + _MOST_FILES, end_of_lap(number))
        while number < stop and (rows is None or rows > 0) and (most_bytes is None or most_bytes > 0):
            entry = self._index[number]
            room = Room(rows, most_bytes, is_first=first)
            cut = self._cut(number, entry, position, room, inside=inside)
            if cut.position <= position and not cut.is_end:
                if not first:
                    break
                cut = self._one_record(entry, position)
            rows = None if rows is None else rows - cut.rows
            most_bytes = None if most_bytes is None else most_bytes - cut.bytes
            first = first and cut.is_end and cut.position <= position
            if not cut.is_end and cut.position < self._length(number, entry):
                here = {"file": number, "position": cut.position}
                return {**here, "inside": True} if cut.inside else here
            number, position, inside = number + 1, 0, False
        return {"file": number, "position": position}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        self._check(start["file"])
        self._check(end["file"])
        whole = [(piece, self._weight(piece)) for piece in self._pieces(start, end)]
        share = max(self.min_split_bytes, sum(weight for _, weight in whole) / max(1, parallelism))
        ends = ends_of_shares([weight for _, weight in whole], share)
        cut = [part for w, at in zip(whole, ends, strict=True) for part in self._divide(*w, at)]
        groups = share_out([weight for _, weight in cut], parallelism, self.min_split_bytes)
        return [
            Split(cut[g[0]][0].place(cut[g[0]][0].start), {"pieces": [cut[i][0].to_json() for i in g]})
            for g in groups
        ]

    def commit(self, end: Offset) -> None:
        """Remove what was laid down of contents before ``end``, and what is known of files that are gone."""
        self._contents.forget_before(end["file"], end["position"])
        self._forgetting.committed(end["file"])

    def backlog(self, offset: Offset) -> Backlog:
        self._scan()
        size = self._index.bytes_from(offset["file"])
        done = offset["position"] if self._source.format != "parquet" else 0
        if done and (packed := self._packed(offset["file"])):
            before = self._contents.of(packed).packed_before(done)
            done = min(done if before is None else before, self._index[offset["file"]].size - 1)
        return Backlog(bytes=max(0, size - done))

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        if self._source.time is None:
            return None
        if self.finished(offset):
            return END_OF_TIME
        return None if observed is None else observed - self._source.lateness_us

    def finished(self, offset: Offset) -> bool:
        if self._source.ends == "never":
            return False
        self._scan()
        return bool(offset["file"] >= len(self._index))

    def _scan(self) -> None:
        """Look for new files, unless the folder has not changed since the last look.

        A folder's time says nothing about files that grow, so everything is looked at now and then.
        """
        now, path = self._clock_ns(), self._source.path
        must = self._source.ends != "never" and not len(self._index)
        if not root_is_there(path, source="files", must=must):
            return
        root = Path(root_of(path))
        folder_ns = root.stat().st_mtime_ns
        flat = "**" not in path and Path(path).parent in (root, root.parent)
        if flat and self._scanned is not None and folder_ns == self._scanned[0]:
            since_ns, settled_ns = now - self._scanned[1], self._scanned[1] - folder_ns
            # Times of folders are coarse: a file may have come in the same tick as the last look.
            if since_ns < _FULL_SCAN_NS and settled_ns > _SETTLED_NS:
                return
        if fresh := news(path, self._index):
            self._index.append(fresh)
        self._scanned = (folder_ns, now)

    def _check(self, number: int) -> None:
        if number < self._index.base:
            what = f"the offset names file {number}, but those before {self._index.base} are forgotten"
            step = "go on from a newer epoch or a savepoint, or begin a new run"
            raise SourceUnavailable(source="files", what=what, where=self._source.path, next_step=step)
        if number > len(self._index):
            what = f"the checkpoint names file {number}, but the index of files has only {len(self._index)}"
            step = "restore files.jsonl, which lies beside the checkpoint, or begin a new run"
            raise SourceUnavailable(source="files", what=what, where=self._source.path, next_step=step)

    def _path(self, entry: FileEntry) -> str:
        return os.path.normpath(os.path.join(root_of(self._source.path), entry.path))  # noqa: PTH118

    def _codec(self, entry: FileEntry) -> str | None:
        """Return how a file of lines is compressed, if it is."""
        is_lines = self._source.format != "parquet" and entry.kind != "changed"
        return codec_of(entry.path, self._source.compression) if is_lines else None

    def _packed(self, number: int) -> Packed | None:
        entry = self._index[number]
        codec = self._codec(entry)
        return None if codec is None else Packed(number, self._path(entry), codec)

    @property
    def _quote(self) -> bytes | None:
        """Return the quote between which a line break does not end a record."""
        is_quoted = self._source.format == "csv" and self._source.csv.multiline == "quoted"
        return self._source.csv.quote.encode() if is_quoted else None

    def _length(self, number: int, entry: FileEntry) -> int:
        if entry.kind == "changed":
            return 1
        if self._codec(entry):
            return TO_END
        if self._source.format != "parquet":
            return entry.size
        return rows_of(self._row_groups(number, entry))

    def _cut(self, number: int, entry: FileEntry, position: int, room: Room, *, inside: bool) -> Cut:
        """How much of a file fits; the position stays where it is when nothing does."""
        if entry.kind == "changed":
            return Cut(1, 1, 0)
        require_there(self._path(entry), self._source.missing)
        if self._source.format == "parquet":
            return cut_groups(self._row_groups(number, entry), position, room)
        try:
            if packed := self._packed(number):
                return self._cut_compressed(packed, position, room, inside=inside)
            left = entry.size - position
            if room.rows is None and (room.bytes is None or left <= room.bytes):
                return Cut(entry.size, 0, left)
            if self._quote:
                with reading(self._path(entry), entry.size) as read:
                    return self._cut_content(read, position, room, inside=inside)
            return self._cut_plain(entry, position, room)
        except OSError:  # gone or unreadable: the reader says so in order
            return Cut(self._length(number, entry), 1, 0, is_end=True)

    def _cut_plain(self, entry: FileEntry, position: int, room: Room) -> Cut:
        header = position == 0 and self._source.has_header
        wanted = None if room.rows is None else room.rows + header
        cut = cut_lines(self._path(entry), position, entry.size, wanted, room.bytes)
        if header and cut.position <= line_end_after(self._path(entry), 0, entry.size) < entry.size:
            return Cut(0, 0, 0)
        return cut

    def _cut_compressed(self, packed: Packed, position: int, room: Room, *, inside: bool) -> Cut:
        """Take a file whole if its content fits, otherwise begin an epoch with as much of it as fits."""
        if self._limit == Limit():
            return Cut(TO_END, 0, 0, is_end=True)
        if position == 0:
            held = self._measured(packed.number)
            if held is not None and _fits(held, room):
                return Cut(TO_END, held.rows, held.bytes, is_end=True)
            if not room.is_first:
                return Cut(0, 0, 0)
        return self._cut_content(self._contents.of(packed).read, position, room, inside=inside)

    def _measured(self, number: int) -> Measured | None:
        """Return how much a compressed file holds, if an epoch may hold that much."""
        numbers = range(number, min(number + AHEAD, len(self._index)))
        files = [packed for n in numbers if (packed := self._packed(n))]
        rows, most_bytes = self._limit.rows, self._limit.bytes
        header = int(self._source.has_header)
        bounds = Bounds(most_bytes or EPOCH_BYTES, None if rows is None else rows + header)
        held = self._contents.measured(files, bounds)
        return None if held is None else replace(held, rows=max(0, held.rows - header))

    def _cut_content(self, read: Read, position: int, room: Room, *, inside: bool) -> Cut:
        header = position == 0 and self._source.has_header
        wanted = replace(room, rows=None if room.rows is None else room.rows + header)
        span = cut_records(read, position, wanted, self._quote, inside=inside)
        if header and span.rows <= 1 and not (span.is_end or span.inside):  # the header goes with a record
            span = cut_records(read, position, Room(rows=2, bytes=None), self._quote)
        return Cut(span.position, span.rows, span.position - position, span.is_end, span.inside)

    def _one_record(self, entry: FileEntry, position: int) -> Cut:
        """The smallest step: a record that is larger than the limits still gets through."""
        if self._source.format == "parquet":
            return Cut(position + 1, 1, 0)
        end = position
        for _ in range(2 if position == 0 and self._source.has_header else 1):
            end = line_end_after(self._path(entry), end, entry.size)
        return Cut(end, 1, end - position)

    def _row_groups(self, number: int, entry: FileEntry) -> list[GroupSize]:
        """The row groups; empty when the file is no Parquet file: the reader says so in order."""
        if number not in self._groups:
            if len(self._groups) > _MOST_FILES:
                self._groups.clear()
            path, source = self._path(entry), self._source
            require_there(path, source.missing)
            enough = self._limit.bytes or sys.maxsize
            try:
                self._groups[number] = group_sizes(path, source.schema, enough)
            except (OSError, pa.ArrowException):
                self._groups[number] = []
        return self._groups[number]

    def _pieces(self, start: Offset, end: Offset) -> Iterator[Piece]:
        for number in range(start["file"], min(end["file"] + 1, len(self._index))):
            entry = self._index[number]
            begin = start["position"] if number == start["file"] else 0
            stop = end["position"] if number == end["file"] else self._length(number, entry)
            if begin < stop:
                piece = Piece(
                    number, self._path(entry), begin, stop, entry.size, entry.mtime_ns, entry.mark, entry.kind
                )
                is_part = self._codec(entry) is not None and (begin, stop) != (0, TO_END)
                folder = str(self._contents.folder(number)) if is_part else ""
                yield replace(piece, inside=begin > 0 and start.get("inside", False), folder=folder)

    def _weight(self, piece: Piece) -> float:
        entry = self._index[piece.number]
        if entry.kind == "changed":
            return 1.0
        if packed := self._packed(piece.number):
            return float(
                self._stop(piece, packed) - piece.start if piece.folder else piece.size * _COMPRESSED_WEIGHT
            )
        return piece.size * (piece.end - piece.start) / max(1, self._length(piece.number, entry))

    def _stop(self, piece: Piece, packed: Packed) -> int:
        """Return where a part of a content ends."""
        if piece.end < TO_END:
            return piece.end
        try:
            return self._contents.of(packed).end(piece.start)
        except OSError:  # the reader says so in order
            return piece.start

    def _divide(self, piece: Piece, weight: float, ends: list[float]) -> Iterator[tuple[Piece, float]]:
        """Cut a piece where shares end, at the ends of records."""
        entry, packed = self._index[piece.number], self._packed(piece.number)
        begin, stop = piece.start, piece.end
        if packed is not None:
            ends, stop = (ends, self._stop(piece, packed)) if piece.folder else ([], stop)
        rest, length = piece, max(1, stop - begin)
        for end in ends if entry.kind != "changed" else ():
            place = self._boundary(rest, entry, piece.start + int(length * end))
            if rest.start < place < stop:
                yield replace(rest, end=place), weight * (place - rest.start) / length
                rest = replace(rest, start=place, inside=False)
        yield rest, weight * (stop - rest.start) / length

    def _boundary(self, rest: Piece, entry: FileEntry, target: int) -> int:
        """Return the last place up to ``target`` where the rest of a piece can be cut, or its beginning."""
        if self._source.format == "parquet":
            return group_end(self._row_groups(rest.number, entry), rest.start, target)
        try:
            if packed := self._packed(rest.number):
                return self._record_end(self._contents.of(packed).read, rest, target)
            with reading(rest.path, entry.size) as read:
                return self._record_end(read, rest, target)
        except OSError:
            return rest.start

    def _record_end(self, read: Read, rest: Piece, target: int) -> int:
        if self._quote is None:
            return last_break(read, rest.start, target)
        room = Room(rows=None, bytes=max(0, target - rest.start))
        span = cut_records(read, rest.start, room, self._quote, inside=rest.inside)
        return span.position if span.position <= target and not span.inside else rest.start


def _fits(held: Measured, room: Room) -> bool:
    fits = room.bytes is None or held.bytes <= room.bytes
    return fits and (room.rows is None or held.rows <= room.rows)
