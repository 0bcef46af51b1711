"""A piece of a capture: what the planner hands to readers, as JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.connect.file_pieces import Piece
from penstock.net.capture import Resume

STRETCH_BYTES = 4 << 20
"""Counts are kept by stretches of this many bytes, and only cut where one begins."""


@dataclass(frozen=True, slots=True)
class CapturePiece:
    """A piece of a file, and what of the file before it must be known to read it."""

    piece: Piece
    section: int = 0
    last_interface: int = 0

    @property
    def resume(self) -> Resume | None:
        """Where to begin; None for the beginning of the file."""
        if self.piece.start == 0:
            return None
        return Resume(self.piece.start, self.section, self.last_interface)

    @property
    def place(self) -> int:
        """Return the position of its first byte."""
        return self.piece.place(self.piece.start)

    def part(self, begin: Resume | None, end: int) -> CapturePiece:
        """The same file between two places."""
        p = self.piece
        start = p.start if begin is None else begin.at
        inner = replace(p, start=start, end=end)
        if begin is None:
            return CapturePiece(inner, self.section, self.last_interface)
        return CapturePiece(inner, begin.section, begin.last_interface)

    def to_json(self) -> list[Any]:
        return [self.piece.to_json(), self.section, self.last_interface]

    @classmethod
    def from_json(cls, values: list[Any]) -> CapturePiece:
        """The piece that ``to_json`` wrote."""
        return cls(Piece(*values[0]), values[1], values[2])
