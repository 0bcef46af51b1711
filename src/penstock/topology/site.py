"""Where in the user's code a node was declared."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_TOPOLOGIES = tuple(f"{_PACKAGE}{folder}{os.sep}" for folder in ("apps", "bench"))
"""Penstock's own folders that hold topologies, written as a user writes them."""


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
    while frame.f_back is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return Site(frame.f_code.co_filename, frame.f_lineno)


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE) and not file.startswith(_TOPOLOGIES)
