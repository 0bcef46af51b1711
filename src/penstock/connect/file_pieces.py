"""A piece of a file: what planners hand to readers, as JSON."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from penstock.connect.file_index import Kind
from penstock.connect.file_scan import mark_of
from penstock.errors import SourceUnavailable

POSITION_BITS = 40
_MOST = (1 << POSITION_BITS) - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """From ``start`` to ``end`` (bytes; rows in Parquet) of a file as it was when it was taken."""

    number: int
    path: str
    start: int
    end: int
    size: int
    mtime_ns: int
    mark: int
    kind: Kind

    def to_json(self) -> list[Any]:
        return list(astuple(self))

    def place(self, position: int) -> int:
        """A position over the source's whole life, from one inside of the file."""
        return self.number << POSITION_BITS | min(position, _MOST)

    def fault(self) -> str | None:
        """Why the file is not to be read, if it is not the one that was taken."""
        if self.kind == "changed":
            return (
                f"the file changed after it was taken and has {self.size} bytes now; what is new was not read"
            )
        try:
            now = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            if not Path(self.path).parent.exists():
                step = "mount or restore it and run again: the epoch is repeated"
                where = str(Path(self.path).parent)
                raise SourceUnavailable(
                    source="files", what="the folder is gone", where=where, next_step=step
                ) from None
            return "the file was deleted before it was read"
        if (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns):
            return None
        if now.st_size > self.size and mark_of(self.path, self.size) == self.mark:
            return None  # it grew: the part that was taken is still there, the growth is another entry
        return f"the file was replaced before it was read: it had {self.size} bytes and has {now.st_size} now"
