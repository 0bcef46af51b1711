"""A piece of a file: what planners hand to readers, as JSON."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal

from penstock.connect.file_index import Kind
from penstock.connect.file_scan import mark_of
from penstock.errors import SourceUnavailable

Missing = Literal["wait", "dead-letter"]
POSITION_BITS = 40
FILE_BITS = 23
"""Positions count files modulo 2 to the power of this: an epoch ends where that begins anew."""
EXPANDED = "expanded"
"""The folder beside the index where contents of compressed files are laid down. Savepoints leave it out."""
_MOST = (1 << POSITION_BITS) - 1


def place_of(number: int, position: int) -> int:
    """Return the position of a place in a file; it ascends within an epoch."""
    return (number & ((1 << FILE_BITS) - 1)) << POSITION_BITS | min(position, _MOST)


def end_of_lap(number: int) -> int:
    """Return the first number behind this one at which positions begin anew."""
    return ((number >> FILE_BITS) + 1) << FILE_BITS


def require_there(path: str, missing: Missing) -> None:
    """Raise SourceUnavailable if a file that was taken is away: its disk may be, and come back.

    With ``missing="dead-letter"`` files may go, but not their folder.
    """
    folder, step = Path(path).parent, "the epoch is repeated once it is back"
    if not folder.exists():
        what, where = "the folder is gone", str(folder)
    elif missing == "wait" and not Path(path).exists():
        what, where = "a file that was found here is gone before it was read", path
        step += "; if files may go unread, make the source with missing='dead-letter' and run again"
    else:
        return
    raise SourceUnavailable(source="files", what=what, where=where, next_step=step)


@dataclass(frozen=True, slots=True)
class Piece:
    """From ``start`` to ``end`` of a file as it was when it was taken.

    Places are bytes, rows in Parquet; of a compressed file they are bytes of its content.
    """

    number: int
    path: str
    start: int
    end: int
    size: int
    mtime_ns: int
    mark: int
    kind: Kind
    inside: bool = False
    """It begins in the middle of a record that is too long, which an earlier piece has reported."""
    folder: str = ""
    """Where the content of a compressed file is laid down, if it is."""

    def to_json(self) -> list[Any]:
        return list(astuple(self))

    def place(self, position: int) -> int:
        """Return the position of a place in this file."""
        return place_of(self.number, position)

    def fault(self, missing: Missing) -> str | None:
        """Why the file is not to be read, if it is not the one that was taken."""
        if self.kind == "changed":
            return (
                f"the file changed after it was taken and has {self.size} bytes now; what is new was not read"
            )
        try:
            now = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            require_there(self.path, missing)
            return f"the file was deleted before it was read; it had {self.size} bytes"
        if (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns):
            return None
        if now.st_size >= self.size and mark_of(self.path, self.size) == self.mark:
            return None  # it was copied, or it grew: what was taken is still there, a growth is another entry
        return f"the file was replaced before it was read: it had {self.size} bytes and has {now.st_size} now"
