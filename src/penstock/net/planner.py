"""Cuts captures into epochs and splits, at record boundaries that a walk through the file has found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connect.expansion import TO_END, Measured
from penstock.connect.file_contents import AHEAD, Bounds, FileContents, Packed
from penstock.connect.file_cuts import Cut, ends_of_shares, share_out
from penstock.connect.file_index import FileEntry
from penstock.connect.file_pieces import Piece, end_of_lap, require_there
from penstock.connect.records import Room
from penstock.connect.source import END_OF_TIME, Backlog, Limit, Offset, SourcePlanner, Split, bound_of
from penstock.errors import SourceUnavailable
from penstock.net.ahead import Ahead
from penstock.net.boundaries import Found, Stretch, cut_capture, cut_counts, divide
from penstock.net.capture import BEHIND_STOP, Resume
from penstock.net.feeds import codec_by_content
from penstock.net.growth import CaptureFiles
from penstock.net.opening import NotACapture
from penstock.net.pieces import STRETCH_BYTES, CapturePiece

if TYPE_CHECKING:
    from penstock.net.pcap import Pcap

_MOST_FILES = 10_000
_COMPRESSED_WEIGHT = 3


class PcapPlanner(SourcePlanner):
    """Keeps a numbered index of files; an offset is a number and a byte in that file.

    Rows and bytes of a limit are packets and bytes of the file.
    """

    min_split_bytes = 4 << 20

    def __init__(self, source: Pcap, state_dir: Path, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._source = source
        self._clock_ns = clock_ns
        must_exist = source.ends == "drained"
        self.files = CaptureFiles(
            source.path, Path(state_dir) / "captures.jsonl", clock_ns, must_exist=must_exist
        )
        self._index = self.files.index
        self._contents = FileContents(Path(state_dir))
        self._limit = Limit()
        self._ahead = Ahead()
        self._waypoints: dict[FileEntry, tuple[Resume, ...]] = {}
        """Of the file in which the last epoch ends, as far as it was walked through for that."""
        self._reached: dict[tuple[FileEntry, int], int | None] = {}
        """The time of the last packets before the end of that epoch."""

    def initial(self) -> Offset:
        return {"file": 0, "position": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        self._scan()
        self._limit = limit
        number, position = start["file"], start["position"]
        if number == len(self._index) and self._source.ends == "drained":
            self.files.scan(end_all=True)
        self._check(number)
        rows, most_bytes, first = limit.rows, limit.bytes, True
        stop = min(len(self._index), number + _MOST_FILES, end_of_lap(number))
        while number < stop and (rows is None or rows > 0) and (most_bytes is None or most_bytes > 0):
            entry = self._index[number]
            position = max(position, entry.start)
            cut = self._cut(number, position, rows, most_bytes, is_first=first)
            if cut.position <= position and not cut.is_end:
                break
            rows = None if rows is None else rows - cut.rows
            most_bytes = None if most_bytes is None else most_bytes - cut.bytes
            first = first and cut.is_end and cut.position <= position
            if not cut.is_end and (cut.position < entry.size or self.files.is_compressed(entry)):
                return {"file": number, "position": cut.position}
            number, position = number + 1, 0
        return {"file": number, "position": position}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        self._check(end["file"])
        whole = [(piece, self._weight(piece)) for piece in self._pieces(start, end)]
        weights = [weight for _, weight in whole]
        ends = ends_of_shares(weights, self._share(weights, parallelism))
        cut = [part for w, at in zip(whole, ends, strict=True) for part in self._divide(*w, at)]
        groups = share_out([weight for _, weight in cut], parallelism, self.min_split_bytes)
        self._look_ahead(end, parallelism)
        return [Split(cut[g[0]][0].place, {"pieces": [cut[i][0].to_json() for i in g]}) for g in groups]

    def backlog(self, offset: Offset) -> Backlog:
        self._scan()
        number = offset["file"]
        return Backlog(bytes=max(0, self._index.bytes_from(number) - self._done(number, offset["position"])))

    def commit(self, end: Offset) -> None:
        """Remove what was laid down of contents before ``end``."""
        self._contents.forget_before(end["file"], end["position"])

    def _done(self, number: int, position: int) -> int:
        """Return how many bytes of a file lie before a position."""
        if number >= len(self._index):
            return 0
        entry = self._index[number]
        done = max(0, position - entry.start)
        if not done or (packed := self._packed(number)) is None:
            return done
        before = self._contents.of(packed).packed_before(position)
        return min(done if before is None else before, entry.size - 1)

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        if self._source.time is None:
            return None
        if self.finished(offset):
            return END_OF_TIME
        number = offset["file"]
        here = (self._index[number], offset["position"]) if number < len(self._index) else None
        seen = [time for time in (observed, self._reached.get(here) if here else None) if time is not None]
        return max(seen) - self._source.lateness_us if seen else None

    def finished(self, offset: Offset) -> bool:
        if self._source.ends == "never":
            return False
        self._scan()
        return bool(offset["file"] >= len(self._index)) and not self.files.has_open

    def _scan(self) -> None:
        self.files.scan()

    def _check(self, number: int) -> None:
        if number > len(self._index):
            what = f"the checkpoint names file {number}, but the index of files has only {len(self._index)}"
            step = "restore captures.jsonl, which lies beside the checkpoint, or begin a new run"
            raise SourceUnavailable(source="pcap", what=what, where=self._source.path, next_step=step)

    def _packed(self, number: int) -> Packed | None:
        entry = self._index[number]
        if entry.kind == "changed":
            return None
        path = self.files.path(entry)
        codec = codec_by_content(path)
        return None if codec is None else Packed(number, path, codec)

    def _cut(
        self, number: int, position: int, rows: int | None, most_bytes: int | None, *, is_first: bool
    ) -> Cut:
        """How much of a file fits; the position stays where it is when nothing does."""
        entry = self._index[number]
        left = entry.size - position
        if entry.kind == "changed":
            return Cut(entry.size, 1, 0)
        require_there(self.files.path(entry), self._source.missing)
        if packed := self._packed(number):
            return self._cut_compressed(packed, position, Room(rows, most_bytes, is_first))
        if rows is None and (most_bytes is None or left <= most_bytes):
            return Cut(entry.size, 0, left)
        try:
            stretch = self._stretch(entry, position, Limit(rows, most_bytes), is_first=is_first)
            found = self._ahead.ask(self._cutter, stretch)
        except (OSError, NotACapture):  # the reader says so in order
            return Cut(entry.size, 1, left)
        self.files.remember(entry, found.end)
        self._waypoints = {entry: found.waypoints}
        self._reached = {(entry, found.end.at): found.time_us}
        return Cut(found.end.at, found.records, found.end.at - position)

    def _cut_compressed(self, packed: Packed, position: int, room: Room) -> Cut:
        """Take a file whole if its content fits, otherwise begin an epoch with as much of it as fits."""
        if self._limit == Limit():
            return Cut(TO_END, 0, 0, is_end=True)
        if position == 0:
            held = self._measured(packed.number) if room.rows is None else None
            if held is not None and (room.bytes is None or held.bytes <= room.bytes):
                return Cut(TO_END, 0, held.bytes, is_end=True)
            if not room.is_first:
                return Cut(0, 0, 0)
        entry, content = self._index[packed.number], self._contents.of(packed)
        try:
            resume = self.files.resume(entry, position)
            latest_us = bound_of(self._source, self._clock_ns())
            found = self._cutter(
                Stretch(packed.path, TO_END, resume, room.rows, room.bytes, True, False, latest_us, content)
            )
            content.read(found.end.at + BEHIND_STOP, 1)  # a reader looks that far behind its end
        except (OSError, NotACapture):  # the reader says so in order
            return Cut(TO_END, 1, 0, is_end=True)
        self.files.remember(entry, found.end)
        self._reached = {(entry, found.end.at): found.time_us}
        return Cut(found.end.at, found.records, found.end.at - position, found.is_end)

    def _measured(self, number: int) -> Measured | None:
        """Return how much a compressed file holds, if an epoch may hold that much."""
        numbers = range(number, min(number + AHEAD, len(self._index)))
        files = [packed for n in numbers if (packed := self._packed(n))]
        try:
            return self._contents.measured(files, Bounds(self._limit.bytes or 0, None))
        except OSError:  # the reader says so in order
            return Measured(0, 0)

    @property
    def _step(self) -> int:
        """Splits begin with the first record behind a multiple of this."""
        return STRETCH_BYTES if self._source.rows == "counts" else 1

    @property
    def _cutter(self) -> Callable[[Stretch], Found]:
        return cut_counts if self._source.rows == "counts" else cut_capture

    def _stretch(self, entry: FileEntry, position: int, limit: Limit, *, is_first: bool) -> Stretch:
        resume, is_open = self.files.resume(entry, position), entry.kind == "growing"
        path = self.files.path(entry)
        latest_us = bound_of(self._source, self._clock_ns())
        return Stretch(path, entry.size, resume, limit.rows, limit.bytes, is_first, is_open, latest_us)

    def _look_ahead(self, begin: Offset, parallelism: int) -> None:
        """Begin to find out where the epoch behind this one ends, and its splits."""
        self._ahead.forget()
        number, limit = begin["file"], self._limit
        entry = self._index[number] if number < len(self._index) else None
        if entry is None or entry.kind != "taken" or self.files.is_compressed(entry):
            return
        position = max(entry.start, begin["position"])
        if limit.rows is None and (limit.bytes is None or entry.size - position <= limit.bytes):
            return  # all the rest is taken as it is
        try:
            stretch = self._stretch(entry, position, limit, is_first=True)
        except (OSError, NotACapture):
            return
        rest = self._piece(number, entry, position, entry.size)

        def divide_too(cut: Future[Found]) -> None:
            if not cut.cancelled() and cut.exception() is None:
                found = cut.result()
                piece = rest.part(None, found.end.at)
                share = self._share([self._weight(piece)], parallelism)
                if ends := ends_of_shares([self._weight(piece)], share)[0]:
                    self._ahead.begin(divide, piece, tuple(ends), self._step, found.waypoints)

        self._ahead.begin(self._cutter, stretch).add_done_callback(divide_too)

    def _share(self, weights: list[float], parallelism: int) -> float:
        return max(self.min_split_bytes, sum(weights) / max(1, parallelism))

    def _pieces(self, start: Offset, end: Offset) -> Iterator[CapturePiece]:
        for number in range(start["file"], min(end["file"] + 1, len(self._index))):
            entry = self._index[number]
            begin = max(entry.start, start["position"] if number == start["file"] else 0)
            packed = self._packed(number)
            whole = TO_END if packed else entry.size
            stop = end["position"] if number == end["file"] else whole
            if begin < stop:
                piece = self._piece(number, entry, begin, stop)
                if packed and (begin, stop) != (0, TO_END):
                    folder = str(self._contents.folder(number))
                    piece = replace(piece, piece=replace(piece.piece, folder=folder))
                yield piece

    def _piece(self, number: int, entry: FileEntry, begin: int, stop: int) -> CapturePiece:
        path = self.files.path(entry)
        piece = Piece(number, path, begin, stop, entry.size, entry.mtime_ns, entry.mark, entry.kind)
        try:
            resume = None if entry.kind == "changed" else self.files.resume(entry, begin)
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
        if piece.piece.end == TO_END:
            return float(entry.size * _COMPRESSED_WEIGHT)
        return float(piece.piece.end - piece.piece.start)

    def _divide(
        self, piece: CapturePiece, weight: float, ends: list[float]
    ) -> list[tuple[CapturePiece, float]]:
        """Cut a piece where shares end, at the beginnings of records."""
        entry = self._index[piece.piece.number]
        if not ends or entry.kind == "changed" or self.files.is_compressed(entry):
            return [(piece, weight)]
        try:
            waypoints = self._waypoints.get(entry, ())
            cut = self._ahead.ask(divide, piece, tuple(ends), self._step, waypoints)
        except (OSError, NotACapture):
            return [(piece, weight)]
        length = piece.piece.end - piece.piece.start
        return [(part, weight * (part.piece.end - part.piece.start) / length) for part in cut]
