"""Cuts the spool of standard input into epochs and splits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.connect.file_cuts import cut_lines, line_end_after, line_end_before, share_out
from penstock.connect.file_pieces import Piece, end_of_lap
from penstock.connect.file_scan import mark_of
from penstock.connect.source import END_OF_TIME, Backlog, Limit, Offset, SourcePlanner, Split
from penstock.connect.spool import ended, segments
from penstock.errors import SourceUnavailable

if TYPE_CHECKING:
    from penstock.connect.files import Files

_MIN_SPLIT_BYTES = 256 << 10


class SpoolPlanner(SourcePlanner):
    """An offset is the number of a segment, a place in it after a whole line, and whether that is the end.

    The end is part of the offset: whether it has come changes while an epoch is planned.
    """

    def __init__(self, lines: Files, folder: Path) -> None:
        self._lines = lines
        self._folder = folder
        self._committed = 0

    def initial(self) -> Offset:
        return {"segment": 0, "position": 0, "ended": False}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        self._raise_failure()
        has_ended = ended(self._folder)  # asked first: what is there then is all of it
        end = self._reach(start, limit, segments(self._folder), has_ended=has_ended)
        return {**end, "ended": has_ended and not self.backlog(end).bytes}

    def _reach(self, start: Offset, limit: Limit, there: dict[int, Path], *, has_ended: bool) -> Offset:
        """How far the limit allows to read."""
        number, position = start["segment"], start["position"]
        rows, most_bytes, is_first = limit.rows, limit.bytes, True
        while number in there and (rows is None or rows > 0) and (most_bytes is None or most_bytes > 0):
            path, end = str(there[number]), self._end(there, number, position, has_ended=has_ended)
            cut = cut_lines(path, position, end, rows, most_bytes)
            place, count = cut.position, cut.rows
            if place <= position and is_first and position < end:
                place, count = line_end_after(path, position, end), 1
            if place < end or number + 1 not in there:
                return {"segment": number, "position": max(place, position)}
            if number + 1 == end_of_lap(start["segment"]):
                return {"segment": number + 1, "position": 0}
            rows = None if rows is None else rows - count
            most_bytes = None if most_bytes is None else most_bytes - (place - position)
            number, position, is_first = number + 1, 0, is_first and place <= position
        return {"segment": number, "position": position}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        there = segments(self._folder)
        spans = []
        for number in range(start["segment"], end["segment"] + 1):
            begin = start["position"] if number == start["segment"] else 0
            stop = end["position"]
            if number not in there:
                if number == end["segment"] and stop == begin:
                    continue
                raise _gone(self._folder / f"{number:012d}.lines")
            path = str(there[number])
            if number < end["segment"]:
                stop = line_end_before(path, begin, there[number].stat().st_size)
            spans += [(number, path, begin, stop)] if begin < stop else []
        total = sum(stop - begin for _, _, begin, stop in spans)
        share = max(_MIN_SPLIT_BYTES, total // max(1, parallelism) + 1)
        pieces = [part for span in spans for part in _divided(*span, share)]
        groups = share_out([piece.end - piece.start for piece in pieces], parallelism, _MIN_SPLIT_BYTES)
        return [
            Split(pieces[g[0]].place(pieces[g[0]].start), {"pieces": [pieces[i].to_json() for i in g]})
            for g in groups
        ]

    def commit(self, end: Offset) -> None:
        """Delete what lies before the last epoch: that one can still be repeated."""
        for number, path in segments(self._folder).items():
            if number < self._committed:
                path.unlink(missing_ok=True)
        self._committed = end["segment"]

    def backlog(self, offset: Offset) -> Backlog:
        there = segments(self._folder)
        size = sum(path.stat().st_size for number, path in there.items() if number >= offset["segment"])
        return Backlog(bytes=max(0, size - offset["position"]))

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        if self._lines.time is None:
            return None
        if self.finished(offset):
            return END_OF_TIME
        return None if observed is None else observed - self._lines.lateness_us

    def finished(self, offset: Offset) -> bool:
        return bool(offset["ended"])

    def _end(self, there: dict[int, Path], number: int, position: int, *, has_ended: bool) -> int:
        """How far a segment can be read: to its last whole line, or to its end if nothing follows."""
        size = there[number].stat().st_size
        if has_ended and number + 1 not in there:
            return size
        return line_end_before(str(there[number]), position, size)

    def _raise_failure(self) -> None:
        failure = self._folder / "failure"
        if failure.exists():
            what, step = failure.read_text(), "mend it and run again: what is in the spool is kept"
            failure.unlink()
            raise SourceUnavailable(source="stdin", what=what, where=str(self._folder), next_step=step)


def _gone(segment: Path) -> SourceUnavailable:
    step = "restore it and run again: the epoch is repeated"
    what = "a segment of the spool is gone"
    return SourceUnavailable(source="stdin", what=what, where=str(segment), next_step=step)


def _divided(number: int, path: str, begin: int, stop: int, share: int) -> list[Piece]:
    """Cut a stretch of a segment at the ends of lines."""
    places = [begin]
    for target in range(begin + share, stop, share):
        place = line_end_before(path, places[-1], target)
        if place > places[-1]:
            places.append(place)
    # A segment grows at any moment, so it is known as a file that has grown since by at least one byte.
    size = stop - 1
    mark = mark_of(path, size)
    ends = [*places[1:], stop]
    return [Piece(number, path, a, b, size, 0, mark, "taken") for a, b in zip(places, ends, strict=True)]
