"""Stacks of Python workers, which they write themselves when a signal asks for them.

A worker that waits for a lock or for a dead mount runs no Python any more. The handler of ``faulthandler`` is
in C and needs no lock of Python's.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

FOLDER = "PENSTOCK_STACKS"
"""The environment variable with the folder for the files; without it no process takes the signal."""
_PATIENCE_S, _POLL_S = 2.0, 0.05
_OLDER_S = 2.0


def dump_stacks_on_signal() -> None:
    """Have this process write the stacks of its threads to a file of its own at each SIGUSR1."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    with suppress(OSError):  # a run does not end because it could not say why it stands still
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        target = os.open(_path(Path(folder), os.getpid()), flags, 0o600)
        faulthandler.register(signal.SIGUSR1, file=target, all_threads=True)


def collect_stacks(folder: Path, processes: list[psutil.Process]) -> dict[int, str]:
    """Signal those processes that have a file, and return what they write, by process id.

    A process without a file is left alone: the signal would end it.
    """
    asked = {process.pid: size for process in processes if (size := _ask(folder, process)) is not None}
    found: dict[int, str] = {}
    deadline = time.monotonic() + _PATIENCE_S
    before: dict[int, str] = {}
    while asked.keys() - found.keys() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        for pid in asked.keys() - found.keys():
            text = _read(folder, pid, asked[pid])
            if text and text == before.get(pid):  # it has come to its end
                found[pid] = text
            before[pid] = text
    return {pid: found.get(pid) or before.get(pid, "") for pid in asked}


def _ask(folder: Path, process: psutil.Process) -> int | None:
    """Send the signal. Return how much the process's file held before; None if it was not sent."""
    try:
        status = _path(folder, process.pid).stat()
        if status.st_mtime + _OLDER_S < process.create_time():
            return None  # the file is of an earlier process of this number
        process.send_signal(signal.SIGUSR1)
        return status.st_size
    except (OSError, psutil.Error):
        return None


def _read(folder: Path, pid: int, start: int) -> str:
    with suppress(OSError), _path(folder, pid).open("rb") as file:
        file.seek(start)
        return file.read().decode("utf-8", "replace")
    return ""


def _path(folder: Path, pid: int) -> Path:
    return folder / f"{pid}.stacks"
