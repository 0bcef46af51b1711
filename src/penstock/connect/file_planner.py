"""Cuts the files that arrive into epochs and splits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connect.compression import codec_of
from penstock.connect.file_cuts import (
    Cut,
    cut_lines,
    ends_of_shares,
    line_end_after,
    line_end_before,
    share_out,
)
from penstock.connect.file_index import FileEntry, FileIndex
from penstock.connect.file_pieces import Piece, require_there
from penstock.connect.file_scan import news, root_is_there, root_of
from penstock.connect.source import END_OF_TIME, Backlog, Limit, Offset, SourcePlanner, Split
from penstock.errors import SourceUnavailable

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
        self._groups: dict[int, list[int]] = {}

    def initial(self) -> Offset:
        return {"file": 0, "position": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        self._scan()
        number, position = start["file"], start["position"]
        self._check(number)
        rows, most_bytes, first = limit.rows, limit.bytes, True
        stop = min(len(self._index), number + _MOST_FILES)
        while number < stop and (rows is None or rows > 0) and (most_bytes is None or most_bytes > 0):
            entry = self._index[number]
            cut = self._cut(number, entry, position, rows, most_bytes)
            if cut.position <= position and not first:
                break
            if cut.position <= position:
                cut = self._one_record(entry, position)
            rows = None if rows is None else rows - cut.rows
            most_bytes = None if most_bytes is None else most_bytes - cut.bytes
            first = False
            if cut.position < self._length(number, entry):
                return {"file": number, "position": cut.position}
            number, position = number + 1, 0
        return {"file": number, "position": position}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
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

    def backlog(self, offset: Offset) -> Backlog:
        self._scan()
        size = self._index.bytes_from(offset["file"])
        done = offset["position"] if self._source.format != "parquet" else 0
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
        if number > len(self._index):
            what = f"the checkpoint names file {number}, but the index of files has only {len(self._index)}"
            step = "restore files.jsonl, which lies beside the checkpoint, or begin a new run"
            raise SourceUnavailable(source="files", what=what, where=self._source.path, next_step=step)

    def _path(self, entry: FileEntry) -> str:
        return os.path.normpath(os.path.join(root_of(self._source.path), entry.path))  # noqa: PTH118

    def _is_whole(self, entry: FileEntry) -> bool:
        """Whether a file can only be taken at once."""
        source = self._source
        quoted = source.format == "csv" and source.csv.multiline == "quoted"
        compressed = source.format != "parquet" and codec_of(entry.path, source.compression) is not None
        return entry.kind == "changed" or quoted or compressed

    def _length(self, number: int, entry: FileEntry) -> int:
        if entry.kind == "changed":
            return 1
        if self._source.format != "parquet":
            return entry.size
        return max(1, sum(self._row_groups(number, entry)))

    def _cut(
        self, number: int, entry: FileEntry, position: int, rows: int | None, most_bytes: int | None
    ) -> Cut:
        """How much of a file fits; the position stays where it is when nothing does."""
        if entry.kind == "changed":
            return Cut(1, 1, 0)
        require_there(self._path(entry), self._source.missing)
        if self._source.format == "parquet":
            return self._cut_parquet(number, entry, position, rows, most_bytes)
        if self._is_whole(entry):
            fits = most_bytes is None or entry.size <= most_bytes
            guess = entry.size * _COMPRESSED_WEIGHT // 100 + 1
            return Cut(entry.size if fits and (rows is None or guess <= rows) else 0, guess, entry.size)
        header = position == 0 and self._source.has_header
        wanted = None if rows is None else rows + header
        try:
            cut = cut_lines(self._path(entry), position, entry.size, wanted, most_bytes)
        except OSError:  # gone or unreadable: the reader says so in order
            return Cut(entry.size, 1, 0)
        if header and cut.position <= line_end_after(self._path(entry), 0, entry.size) < entry.size:
            return Cut(0, 0, 0)
        return cut

    def _one_record(self, entry: FileEntry, position: int) -> Cut:
        """The smallest step: a record that is larger than the limits still gets through."""
        if self._is_whole(entry):
            return Cut(entry.size, 1, entry.size)
        if self._source.format == "parquet":
            return Cut(position + 1, 1, 0)
        end = position
        for _ in range(2 if position == 0 and self._source.has_header else 1):
            end = line_end_after(self._path(entry), end, entry.size)
        return Cut(end, 1, end - position)

    def _cut_parquet(
        self, number: int, entry: FileEntry, position: int, rows: int | None, most_bytes: int | None
    ) -> Cut:
        total = self._length(number, entry)
        width = max(1.0, entry.size / total)
        left = total - position
        if rows is not None:
            left = min(left, rows)
        if most_bytes is not None:
            left = min(left, int(most_bytes / width))
        return Cut(position + left, left, int(left * width))

    def _row_groups(self, number: int, entry: FileEntry) -> list[int]:
        """Rows of each row group; empty when the file is no Parquet file: the reader says so in order."""
        if number not in self._groups:
            if len(self._groups) > _MOST_FILES:
                self._groups.clear()
            require_there(self._path(entry), self._source.missing)
            try:
                meta = pq.read_metadata(self._path(entry))
                self._groups[number] = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
            except (OSError, pa.ArrowException):
                self._groups[number] = []
        return self._groups[number]

    def _pieces(self, start: Offset, end: Offset) -> Iterator[Piece]:
        for number in range(start["file"], min(end["file"] + 1, len(self._index))):
            entry = self._index[number]
            begin = start["position"] if number == start["file"] else 0
            stop = end["position"] if number == end["file"] else self._length(number, entry)
            if begin < stop:
                yield Piece(
                    number,
                    self._path(entry),
                    begin,
                    stop,
                    entry.size,
                    entry.mtime_ns,
                    entry.mark,
                    entry.kind,
                )

    def _weight(self, piece: Piece) -> float:
        entry = self._index[piece.number]
        if entry.kind == "changed":
            return 1.0
        part = piece.size * (piece.end - piece.start) / max(1, self._length(piece.number, entry))
        return part * _COMPRESSED_WEIGHT if codec_of(entry.path, self._source.compression) else part

    def _divide(self, piece: Piece, weight: float, ends: list[float]) -> Iterator[tuple[Piece, float]]:
        """Cut a piece where shares end, at the ends of records."""
        entry = self._index[piece.number]
        begin = piece.start
        if not self._is_whole(entry):
            for end in ends:
                target = piece.start + int((piece.end - piece.start) * end)
                place = self._boundary(piece, entry, begin, target)
                if begin < place < piece.end:
                    yield self._part(piece, begin, place, weight)
                    begin = place
        yield self._part(piece, begin, piece.end, weight)

    def _part(self, piece: Piece, begin: int, end: int, weight: float) -> tuple[Piece, float]:
        part = Piece(piece.number, piece.path, begin, end, piece.size, piece.mtime_ns, piece.mark, piece.kind)
        return part, weight * (end - begin) / (piece.end - piece.start)

    def _boundary(self, piece: Piece, entry: FileEntry, begin: int, target: int) -> int:
        if self._source.format == "parquet":
            ends, place = [], 0
            for rows in self._row_groups(piece.number, entry):
                place += rows
                ends.append(place)
            return max((end for end in ends if end <= target), default=begin)
        try:
            return line_end_before(piece.path, begin, target)
        except OSError:
            return begin
