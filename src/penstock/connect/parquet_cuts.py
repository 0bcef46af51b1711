"""Where an epoch or a split may end inside of a Parquet file, whose places are rows."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.connect.file_cuts import Cut
from penstock.connect.parquet_sizes import GroupSize
from penstock.connect.records import Room


def rows_of(groups: Sequence[GroupSize]) -> int:
    """Return the rows of a file; a file that cannot be read or is empty counts as one."""
    return max(1, sum(group.rows for group in groups))


def cut_groups(groups: Sequence[GroupSize], position: int, room: Room) -> Cut:
    """Return how far a file can be read from a row on, by what its rows need in memory."""
    end = rows_of(groups) if room.bytes is None else _end_by_bytes(groups, position, room.bytes)
    if room.rows is not None:
        end = min(end, position + room.rows)
    return Cut(end, end - position, _bytes_between(groups, position, end))


def group_end(groups: Sequence[GroupSize], start: int, target: int) -> int:
    """Return the last end of a row group up to ``target``, or ``start``."""
    found = place = 0
    for group in groups:
        place += group.rows
        found = place if place <= target else found
    return max(found, start)


def _end_by_bytes(groups: Sequence[GroupSize], position: int, most: int) -> int:
    begin, left = 0, float(most)
    for group in groups:
        here, begin = max(position, begin), begin + group.rows
        if begin > here:
            fits = int(left / group.width)
            if here + fits < begin:
                return here + fits
            left -= (begin - here) * group.width
    return rows_of(groups)


def _bytes_between(groups: Sequence[GroupSize], start: int, end: int) -> int:
    begin, found = 0, 0.0
    for group in groups:
        stop = begin + group.rows
        found += max(0, min(end, stop) - max(start, begin)) * group.width
        begin = stop
    return int(found)
