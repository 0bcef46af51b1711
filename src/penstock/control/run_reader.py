"""Read along what a run has done, from its directory: no part of it need be in this process."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.control.progress import Progress
from penstock.control.run_directory import RunDirectory, read_progress


class RunReader:
    """Remembers how far it has read the logs of a run."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._history: dict[int, Progress] = {}
        self._history_read = 0
        self._console_read = 0
        self._console_inode: int | None = None
        if directory.console_log.exists():
            status = directory.console_log.stat()
            self._console_read, self._console_inode = status.st_size, status.st_ino

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
        log = self._directory.console_log
        try:
            with open(log, "rb") as file:
                text = b""
                inode = os.fstat(file.fileno()).st_ino
                if inode != self._console_inode:  # the log began anew
                    if self._console_inode is not None:
                        text = _read_from(log.with_name("console.before.log"), self._console_read)
                    self._console_read, self._console_inode = 0, inode
                file.seek(self._console_read)
                text += file.read()
                self._console_read = file.tell()
        except FileNotFoundError:
            return []
        return text.decode(errors="replace").splitlines()


def _read_from(path: Path, place: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(place)
            return file.read()
    except FileNotFoundError:
        return b""
