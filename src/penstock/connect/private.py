"""Modes of a run's files: their owner's alone, whatever the umask.

A run directory holds its users' data: state, dead letters, spooled input, stored programs. The folder at its
top is closed to everyone else, which protects all that lies below it, also what the JVM and libraries write
there with modes of their own. Our own files are private one by one, too, so that they may be moved or linked.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can enter; one that is there is closed, with all that is in it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=FOLDER)
    if folder.stat().st_mode & _OTHERS:
        _close_below(folder)
        _close(folder)  # last: until then a start that was broken off is done again


def open_private(path: str, flags: int) -> int:
    """Serve ``open(..., opener=open_private)``: a new file is its owner's alone."""
    return os.open(path, flags, FILE)


def _close_below(folder: Path) -> None:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _close(Path(place, name))


def _close(path: Path) -> None:
    # Spark clears files away meanwhile, some file systems have no modes, and a file may be another user's.
    with suppress(OSError):
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode) and mode & _OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
