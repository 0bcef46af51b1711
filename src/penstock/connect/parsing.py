"""Blocks of lines to frames. Total: every line becomes a row or a reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa

_FAN = 16


class Parser(ABC):
    """Turns lines into rows. What a line becomes depends on that line alone."""

    quote: bytes | None = None  # set: a line break between quotes does not end a record

    @abstractmethod
    def block(self, data: bytes, reject: Callable[[int, bytes, str], None]) -> pl.DataFrame:
        """The rows of a block. Bad lines go to ``reject`` with their place in the block, in order."""


class LineParser(Parser):
    """Takes a block at once if all of it is good, and looks at each line otherwise."""

    def is_blank(self, line: bytes) -> bool:
        """Whether a line is no record at all."""
        return not line.strip(b" \t\r")

    @abstractmethod
    def parse(self, data: bytes) -> pl.DataFrame | None:
        """The rows of a block of valid UTF-8, or None if any line of it needs a closer look."""

    @abstractmethod
    def sift(self, lines: list[bytes]) -> tuple[pl.DataFrame, dict[int, str]]:
        """The rows of the good lines, and why the others are bad, by their number in the list."""

    def block(self, data: bytes, reject: Callable[[int, bytes, str], None]) -> pl.DataFrame:
        rows = self.parse(data) if is_utf8(data) else None
        if rows is not None:
            return rows
        places, lines = split_lines(data, self)
        bad = {i: reason for i, line in enumerate(lines) if (reason := utf8_fault(line))}
        numbers = [i for i in range(len(lines)) if i not in bad]
        rows, faults = self.sift([lines[i] for i in numbers])
        bad.update({numbers[i]: reason for i, reason in faults.items()})
        for i in sorted(bad):
            reject(places[i], lines[i], bad[i])
        return rows


def split_lines(data: bytes, parser: LineParser) -> tuple[list[int], list[bytes]]:
    """Where records begin, and the records without their line ends."""
    ends = record_ends(data, parser.quote).tolist()
    if not ends or ends[-1] != len(data) - 1:
        ends.append(len(data))
    places, lines, begin = [], [], 0
    for end in ends:
        line = data[begin:end].removesuffix(b"\r")
        if begin < len(data) and not parser.is_blank(line):
            places.append(begin)
            lines.append(line)
        begin = end + 1
    return places, lines


def record_ends(data: bytes, quote: bytes | None) -> np.ndarray:
    """The places of the line breaks that end a record."""
    array = np.frombuffer(data, dtype=np.uint8)
    breaks = np.flatnonzero(array == 10)
    if quote is None:
        return breaks
    quotes = np.flatnonzero(array == quote[0])
    ends: np.ndarray = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
    return ends


def is_utf8(data: bytes) -> bool:
    """Whether all of it is valid UTF-8: Polars and Arrow trust strings, and crash on others."""
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int64))
    whole = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(data)])
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def utf8_fault(line: bytes) -> str | None:
    """Why a line is not valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start} of the line"
    return None


def narrow_down(
    lines: list[bytes],
    first: int,
    attempt: Callable[[list[bytes], int], list[pl.DataFrame] | None],
    judge: Callable[[bytes, int], None],
) -> list[pl.DataFrame]:
    """Try all lines at once, then ever smaller groups; what fails alone goes to ``judge``.

    Sixteen parts and not two: most groups are then either good or a single line after few rounds.
    """
    if not lines:
        return []
    if (rows := attempt(lines, first)) is not None:
        return rows
    if len(lines) == 1:
        judge(lines[0], first)
        return []
    step = max(1, -(-len(lines) // _FAN))
    parts = (narrow_down(lines[i : i + step], first + i, attempt, judge) for i in range(0, len(lines), step))
    return [frame for part in parts for frame in part]


class TextLines(LineParser):
    """One column "line". Empty lines are records too."""

    def is_blank(self, line: bytes) -> bool:
        return False

    def parse(self, data: bytes) -> pl.DataFrame | None:
        import pyarrow.compute as pc

        body = data.removesuffix(b"\n")
        if not data:
            return pl.DataFrame(schema={"line": pl.String})
        offsets = pa.py_buffer(np.array([0, len(body)], dtype=np.int64))
        whole = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(body)])
        lines = pl.Series("line", pc.split_pattern(whole, "\n").values)
        if b"\r" in body:
            lines = lines.str.strip_suffix("\r")
        return lines.to_frame()

    def sift(self, lines: list[bytes]) -> tuple[pl.DataFrame, dict[int, str]]:
        text = [line.decode() for line in lines]
        return pl.DataFrame({"line": text}, schema={"line": pl.String}), {}
