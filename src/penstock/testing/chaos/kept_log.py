"""The offset log of a run, with the entries that Spark has cleared away since."""

from __future__ import annotations

from typing import Any

from penstock.control.run_directory import RunDirectory
from penstock.spark.offset_log import read_offset

_MAY_CHANGE = 2
"""So many of the newest entries may be written again, when an epoch is planned anew."""


class KeptLog:
    """Copies entries while they are there: the reference engine repeats a run from its first epoch on."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._entries: dict[int, dict[str, Any]] = {}

    def look(self) -> None:
        """Copy what has come since the last look; an entry that is being written is copied next time."""
        entries = (self._directory.checkpoint / "offsets").glob("[0-9]*")
        numbers = sorted(int(path.name) for path in entries if path.name.isdecimal())
        for number in numbers:
            if number not in self._entries or number in numbers[-_MAY_CHANGE:]:
                try:
                    self._entries[number] = read_offset(self._directory, number)
                except (LookupError, ValueError, OSError):
                    continue

    def offsets(self) -> dict[int, dict[str, Any]]:
        """Return the offsets of all epochs by their numbers, in order."""
        self.look()
        return dict(sorted(self._entries.items()))
