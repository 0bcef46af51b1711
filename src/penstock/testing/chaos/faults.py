"""Faults as values, and the moment at which one happens inside a process of a run.

A schedule's folder holds its faults. Sources and sinks that are watched (see ``watched``) come to named
points; the process that comes to a fault's point at its visit does the deed to itself, once.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from penstock.testing.chaos.dying import at_write

Deed = Literal["die", "freeze", "sleep", "hold", "jump", "fail", "do"]
POINTS = {
    "planning": "before the end of an epoch is chosen",
    "after-offsets": "the epoch is in Spark's offset log, nothing of it has run",
    "reading": "a task has read a part of a source",
    "in-write": "a task has written a part of a sink's rows",
    "written": "a task has written all its rows",
    "saving": "a slice's state is being saved",
    "before-sink": "all tasks are done, no row is visible",
    "in-commit": "a sink's commit has made some of its changes to files",
    "after-sink": "a sink's rows are visible, Spark's commit log does not have the epoch",
    "after-commit": "Spark's commit log has the epoch",
}
"""Where a process can be hit. Processes of the planner, of tasks and of commits come to them."""
COMMITTED = "committed"
"""Not a point of a process: the harness acts when so many epochs are committed."""
_HELD_AT_MOST_S = 30.0
_WRITES = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    point: str
    visit: int
    """At the so-many-th time that a process comes to the point; for COMMITTED, after so many epochs."""
    deed: Deed
    seconds: float = 0.0
    """How long it sleeps, is frozen or fails, or how far its clock jumps."""
    action: str = ""
    """For ``do``: what the harness does from outside (see ``actions``)."""

    def __str__(self) -> str:
        what = self.action or self.deed
        extent = f" {self.seconds:+.1f} s" if self.seconds else ""
        return f"{what}{extent} at {self.point} {self.visit}"


def lay_out(folder: Path, faults: Iterable[Fault]) -> None:
    """Put the faults where the processes of the run find them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "faults.json").write_text(json.dumps([asdict(fault) for fault in faults]))


def reach(folder: Path, point: str) -> None:
    """A process has come to a point; it may not come back."""
    visit = _visit(folder / f"{point}.visits")
    for number, values in enumerate(json.loads((folder / "faults.json").read_text())):
        fault = Fault(**values)
        if (
            fault.point == point
            and visit >= fault.visit
            and (claim(folder, number) or _still_fails(folder, number, fault))
        ):
            _do(folder, number, fault)


@contextmanager
def reaching(folder: Path, point: str, below: Path) -> Iterator[None]:
    """A process works at a point; a fault kills it at one of its changes to files below a folder."""
    visit = _visit(folder / f"{point}.visits")
    for number, values in enumerate(json.loads((folder / "faults.json").read_text())):
        fault = Fault(**values)
        if fault.point == point and visit >= fault.visit and number not in fired(folder):
            with at_write(below, visit % _WRITES, partial(_claim_and_die, folder, number)):
                yield
            return
    yield


def _claim_and_die(folder: Path, number: int) -> None:
    if claim(folder, number):
        os.kill(os.getpid(), signal.SIGKILL)


def claim(folder: Path, number: int) -> bool:
    """Whether it is for the caller to let a fault happen; only the first one is told so."""
    try:
        (folder / f"{number}.fired").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def disclaim(folder: Path, number: int) -> None:
    """A fault that was claimed has not happened; it is due again."""
    (folder / f"{number}.fired").unlink()


def fired(folder: Path) -> dict[int, int]:
    """When each fault that has happened did so, in ns."""
    return {int(path.stem): path.stat().st_mtime_ns for path in folder.glob("*.fired")}


def frozen(folder: Path) -> Iterator[tuple[Path, int]]:
    """Processes that stopped themselves, each with the file that says so."""
    for path in folder.glob("*.frozen"):
        if text := path.read_text():
            yield path, int(text)


def held(folder: Path) -> Iterator[Path]:
    """Files of processes that wait at a point until the file is gone."""
    yield from folder.glob("*.held")


def _visit(counter: Path) -> int:
    """How often, with this time, something has happened in all processes."""
    with open(counter, "ab") as file:
        file.write(b".")
        return file.tell()


def _do(folder: Path, number: int, fault: Fault) -> None:
    if fault.deed == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.deed == "freeze":
        (folder / f"{number}.frozen").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault.deed == "sleep":
        time.sleep(fault.seconds)
    elif fault.deed == "jump":
        _move_clock(int(fault.seconds * 1e9))
    elif fault.deed == "hold":
        _wait_while_there(folder / f"{number}.held")
    elif fault.deed == "fail":
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def _still_fails(folder: Path, number: int, fault: Fault) -> bool:
    """Whether what failed for the first one fails for those who come later, too."""
    return fault.deed == "fail" and time.time_ns() < fired(folder)[number] + fault.seconds * 1e9


def _move_clock(by_ns: int) -> None:
    """This process's clock on the wall goes wrong from now on."""
    real = time.time_ns
    time.time_ns = lambda: real() + by_ns
    time.time = lambda: time.time_ns() / 1e9


def _wait_while_there(path: Path) -> None:
    path.touch()
    deadline = time.monotonic() + _HELD_AT_MOST_S
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
