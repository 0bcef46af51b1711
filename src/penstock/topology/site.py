"""Where in the user's code a node was declared."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1])


@dataclass(frozen=True, slots=True)
class Site:
    """A line of the user's code."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"


def here() -> Site:
    """The innermost line on the stack that is not Penstock's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)
