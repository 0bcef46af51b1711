"""Read along what a run has done, from its directory: no part of it need be in this process."""

from __future__ import annotations

import os

from penstock.control.progress import Progress
from penstock.control.run_directory import RunDirectory, read_progress


class RunReader:
    """Remembers how far it has read the logs of a run."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._history: dict[int, Progress] = {}
        self._history_read = 0
        self._console_read = directory.console_log.stat().st_size if directory.console_log.exists() else 0

    def progress(self) -> Progress | None:
        """The newest committed epoch."""
        return self._directory.last_progress()

    def history(self) -> list[Progress]:
        """The epochs committed since the log was last cut, oldest first; one run again counts once."""
        try:
            with open(self._directory.progress_log, "rb") as file:
                if file.seek(0, os.SEEK_END) < self._history_read:  # the log was cut
                    self._history_read = 0
                file.seek(self._history_read)
                text = file.read()
        except FileNotFoundError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._history_read += len(complete)
        for line in complete.splitlines():
            progress = read_progress(line)
            known = self._history.get(progress.epoch) if progress else None
            if progress and (known is None or progress.fence >= known.fence):
                self._history[progress.epoch] = progress
        return list(self._history.values())

    def console(self) -> list[str]:
        """Lines of console sinks since the last call."""
        try:
            with open(self._directory.console_log) as file:
                file.seek(self._console_read)
                text = file.read()
                self._console_read = file.tell()
        except FileNotFoundError:
            return []
        return text.splitlines()
