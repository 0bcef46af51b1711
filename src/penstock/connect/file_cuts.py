"""Where an epoch or a split may end inside of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.connect.records import Read

_STEP_BYTES = 1 << 20
_SLACK = 0.02
_COUNTED_BYTES = 32 << 20  # more than this is not read to count its lines: their length is estimated


@dataclass(frozen=True, slots=True)
class Cut:
    """Where to end, and about how much that takes."""

    position: int
    rows: int
    bytes: int
    is_end: bool = False
    """The file ends here; for contents whose length is not known before."""
    inside: bool = False
    """This is in the middle of a record that is too long."""


def cut_lines(path: str, start: int, size: int, rows: int | None, most_bytes: int | None) -> Cut:
    """The last end of a line within the limits; ``start`` itself when not even one line fits."""
    end = size if most_bytes is None else min(size, start + most_bytes)
    count = 0
    if rows is not None:
        end, count = _rows_end(path, start, end, rows)
    if end < size:
        end = line_end_before(path, start, end)
    return Cut(end, count, end - start)


def line_end_before(path: str, start: int, target: int) -> int:
    """The place after the last line break in start … target, or ``start``."""
    with open(path, "rb", buffering=0) as file:
        return last_break(lambda at, count: os.pread(file.fileno(), count, at), start, target)


def last_break(read: Read, start: int, target: int) -> int:
    """Return the place after the last line break in start … target, or ``start``."""
    while target > start:
        begin = max(start, target - _STEP_BYTES)
        data = b""
        while len(data) < target - begin and (more := read(begin + len(data), target - begin - len(data))):
            data += more
        place = data.rfind(b"\n")
        if place >= 0:
            return begin + place + 1
        target = begin
    return start


def line_end_after(path: str, target: int, size: int) -> int:
    """The place after the first line break from ``target`` on, or the file's end."""
    with open(path, "rb", buffering=0) as file:
        file.seek(target)
        while target < size and (data := file.read(min(_STEP_BYTES, size - target))):
            place = data.find(b"\n")
            if place >= 0:
                return target + place + 1
            target += len(data)
    return size


def _rows_end(path: str, start: int, end: int, rows: int) -> tuple[int, int]:
    """Where ``rows`` lines end, and how many lines there are up to there."""
    count, place, data = 0, start, b""
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        while place < end and place - start < _COUNTED_BYTES:
            if not (read := file.read(min(_STEP_BYTES, end - place))):
                break
            data = read
            breaks = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)
            if count + len(breaks) >= rows:
                return place + int(breaks[rows - count - 1]) + 1, rows
            count += len(breaks)
            place += len(data)
    if place >= end or not count:
        return end, count + (data[-1:] not in (b"", b"\n"))  # the last line may have no line break
    length = (place - start) / count
    estimated = min(end, start + int(length * rows))
    return estimated, min(rows, int((estimated - start) / length))


def ends_of_shares(weights: Sequence[float], share: float) -> list[list[float]]:
    """Where shares end inside of each of these neighbours, as fractions of it.

    Not so near to either end of one that a share would differ little without the cut.

    >>> ends_of_shares([2, 198], 100), ends_of_shares([1, 199], 100)
    ([[], [0.494...]], [[], [0.497...]])
    """
    found: list[list[float]] = []
    before, least = 0.0, share * _SLACK
    for weight in weights:
        first, behind = int(before // share) + 1, before + weight
        ends = (n * share - before for n in range(first, int(behind // share) + 1))
        found.append([end / weight for end in ends if least < end < weight - least])
        before = behind
    return found


def share_out(weights: Sequence[float], parallelism: int, smallest: float) -> list[range]:
    """Group neighbours into at most ``parallelism`` groups of about equal weight."""
    share = max(smallest, sum(weights) / max(1, parallelism))
    groups: list[range] = []
    begin, held = 0, 0.0
    for i, weight in enumerate(weights):
        if i > begin and held + weight / 2 > share and len(groups) < parallelism - 1:
            groups.append(range(begin, i))
            begin, held = i, 0.0
        held += weight
    return [*groups, range(begin, len(weights))] if weights else []
