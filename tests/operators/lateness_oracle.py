"""Which events are late, by their positions alone, in plain Python: no epochs, no splits, no slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]


def watermarks(times: Sequence[int | None], lateness: int) -> list[int | None]:
    """For each event the greatest time before it, less the lateness; None where there is none."""
    found: list[int | None] = []
    greatest: int | None = None
    for time in times:
        found.append(None if greatest is None else greatest - lateness)
        if time is not None:
            greatest = time if greatest is None else max(greatest, time)
    return found


def is_behind(time: int, watermark: int) -> bool:
    """The event itself lies behind its watermark."""
    return time < watermark


def has_closed(length: int, every: int) -> Callable[[int, int], bool]:
    """The first window that the event lies in ends at its watermark or before it."""

    def closed(time: int, watermark: int) -> bool:
        start = time // every * every
        while start - every + length > time:
            start -= every
        return start + length <= watermark

    return closed


def parted(
    rows: Sequence[Row], lateness: int, late: Callable[[int, int], bool]
) -> tuple[list[Row], list[Row]]:
    """The rows of a source that are in time, and those that are late; without a time all are."""
    marks = watermarks([row["time"] for row in rows], lateness)
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row, mark in zip(rows, marks, strict=True):
        is_late = row["time"] is None or (mark is not None and late(row["time"], mark))
        parts[is_late].append(row)
    return parts
