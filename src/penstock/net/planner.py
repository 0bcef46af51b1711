"""Cuts captures into epochs and splits, at record boundaries that a walk through the file has found."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connect.file_cuts import Cut, share_out
from penstock.connect.file_index import FileEntry, FileIndex
from penstock.connect.file_pieces import Piece
from penstock.connect.file_scan import news, root_of
from penstock.connect.source import END_OF_TIME, Backlog, Limit, Offset, SourcePlanner, Split
from penstock.errors import SourceUnavailable
from penstock.net.boundaries import cut_capture, cut_counts, divide, resume_at
from penstock.net.capture import Resume
from penstock.net.feeds import codec_by_content
from penstock.net.opening import NotACapture
from penstock.net.pieces import CapturePiece

if TYPE_CHECKING:
    from penstock.net.pcap import Pcap

_MOST_FILES = 10_000
_COMPRESSED_WEIGHT = 3


class PcapPlanner(SourcePlanner):
    """Keeps a numbered index of files; an offset is a number and a byte in that file.

    Rows and bytes of a limit are packets and bytes of the file. Where to go on in a pcapng file is
    remembered for the newest offset; after a restart the file is walked through once to find it again.
    """

    min_split_bytes = 4 << 20

    def __init__(self, source: Pcap, state_dir: Path, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._source = source
        self._index = FileIndex(Path(state_dir) / "captures.jsonl")
        self._resumes: dict[tuple[int, int], Resume] = {}

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
            cut = self._cut(number, entry, position, rows, most_bytes, is_first=first)
            if cut.position <= position:
                break
            rows = None if rows is None else rows - cut.rows
            most_bytes = None if most_bytes is None else most_bytes - cut.bytes
            first = False
            if cut.position < entry.size:
                return {"file": number, "position": cut.position}
            number, position = number + 1, 0
        return {"file": number, "position": position}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        self._check(end["file"])
        whole = [(piece, self._weight(piece)) for piece in self._pieces(start, end)]
        share = max(self.min_split_bytes, sum(weight for _, weight in whole) / max(1, parallelism))
        cut = [part for piece, weight in whole for part in self._divide(piece, weight, share)]
        groups = share_out([weight for _, weight in cut], parallelism, self.min_split_bytes)
        return [Split(cut[g[0]][0].place, {"pieces": [cut[i][0].to_json() for i in g]}) for g in groups]

    def backlog(self, offset: Offset) -> Backlog:
        self._scan()
        return Backlog(bytes=max(0, self._index.bytes_from(offset["file"]) - offset["position"]))

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
        path = self._source.path
        root = Path(root_of(path))
        if not root.exists():
            if not root.parent.exists():
                step = "create the folder, or correct the path"
                raise SourceUnavailable(source="pcap", what="no such folder", where=str(root), next_step=step)
            return
        if fresh := news(path, self._index):
            self._index.append(fresh)

    def _check(self, number: int) -> None:
        if number > len(self._index):
            what = f"the checkpoint names file {number}, but the index of files has only {len(self._index)}"
            step = "restore captures.jsonl, which lies beside the checkpoint, or begin a new run"
            raise SourceUnavailable(source="pcap", what=what, where=self._source.path, next_step=step)

    def _path(self, entry: FileEntry) -> str:
        return os.path.normpath(os.path.join(root_of(self._source.path), entry.path))  # noqa: PTH118

    def _cut(
        self,
        number: int,
        entry: FileEntry,
        position: int,
        rows: int | None,
        most_bytes: int | None,
        *,
        is_first: bool,
    ) -> Cut:
        """How much of a file fits; the position stays where it is when nothing does."""
        left = entry.size - position
        if entry.kind == "changed":
            return Cut(entry.size, 1, 0)
        if self._is_whole(entry):
            fits = is_first or ((most_bytes is None or left <= most_bytes) and rows is None)
            return Cut(entry.size if fits else position, 1, left)
        if rows is None and (most_bytes is None or left <= most_bytes):
            return Cut(entry.size, 0, left)
        cut = cut_counts if self._source.rows == "counts" else cut_capture
        try:
            resume = self._resume(number, entry, position)
            found, count = cut(self._path(entry), entry.size, resume, rows, most_bytes, is_first=is_first)
        except (OSError, NotACapture):  # the reader says so in order
            return Cut(entry.size, 1, left)
        self._resumes = {(number, found.at): found}
        return Cut(found.at, count, found.at - position)

    def _is_whole(self, entry: FileEntry) -> bool:
        return entry.kind == "changed" or codec_by_content(self._path(entry)) is not None

    def _resume(self, number: int, entry: FileEntry, position: int) -> Resume | None:
        if position == 0:
            return None
        known = self._resumes.get((number, position))
        if known is None:
            known = resume_at(self._path(entry), entry.size, position)
            self._resumes[number, position] = known
        return known

    def _pieces(self, start: Offset, end: Offset) -> Iterator[CapturePiece]:
        for number in range(start["file"], min(end["file"] + 1, len(self._index))):
            entry = self._index[number]
            begin = start["position"] if number == start["file"] else 0
            stop = end["position"] if number == end["file"] else entry.size
            if begin < stop:
                yield self._piece(number, entry, begin, stop)

    def _piece(self, number: int, entry: FileEntry, begin: int, stop: int) -> CapturePiece:
        path = self._path(entry)
        piece = Piece(number, path, begin, stop, entry.size, entry.mtime_ns, entry.mark, entry.kind)
        try:
            resume = self._resume(number, entry, begin)
        except (OSError, NotACapture):
            resume = None
        return (
            CapturePiece(piece)
            if resume is None
            else CapturePiece(piece, resume.section, resume.last_interface)
        )

    def _weight(self, piece: CapturePiece) -> float:
        entry = self._index[piece.piece.number]
        if entry.kind == "changed":
            return 1.0
        length = piece.piece.end - piece.piece.start
        return float(length * (_COMPRESSED_WEIGHT if self._is_whole(entry) else 1))

    def _divide(self, piece: CapturePiece, weight: float, share: float) -> list[tuple[CapturePiece, float]]:
        """Cut a piece that is larger than a split should be, at the beginnings of records."""
        parts = int(weight / share)
        if parts < 2 or self._is_whole(self._index[piece.piece.number]):
            return [(piece, weight)]
        try:
            cut = divide(piece, parts, is_counts=self._source.rows == "counts")
        except (OSError, NotACapture):
            return [(piece, weight)]
        length = piece.piece.end - piece.piece.start
        return [(part, weight * (part.piece.end - part.piece.start) / length) for part in cut]
