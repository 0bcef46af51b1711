"""Notice an epoch that makes no progress, and report where its workers stand. Nothing is ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from penstock.control.incidents import Incident
from penstock.spark.stack_files import FOLDER, collect_stacks

LEAST_S = 60.0
TIMES = 10.0
"""A limit of its own for each run: epochs of minutes are usual for some."""
CONFIRMED_S = 5.0
_BETWEEN_LOOKS_S = 0.001
_EPOCHS = 20
_MOST_WORKERS, _MOST_CHARACTERS = 16, 3_000


def limit_after(epoch_s: Sequence[float], fixed_s: float | None = None) -> float:
    """Return how long an epoch may take until it is reported, given how long the last ones took.

    >>> limit_after([0.3, 0.2, 9.0]), limit_after([40.0, 20.0, 30.0]), limit_after([40.0], fixed_s=5)
    (60.0, 300.0, 5)
    """
    if fixed_s is not None:
        return fixed_s
    return max(LEAST_S, TIMES * median(epoch_s[-_EPOCHS:])) if epoch_s else LEAST_S


@dataclass(slots=True)
class StallClock:
    """How long the run has been busy with one epoch. Pure: the time is passed in.

    An idle query looks for data many times a second and is seen busy by chance, but not each time.
    """

    epoch: int | None = None
    since_s: float = 0.0
    report_at_s: float = 0.0
    """Doubled after each report: two reports tell an epoch that is slow from one that stands still."""

    def look(self, now_s: float, *, epoch: int | None, limit_s: Callable[[], float]) -> float | None:
        """Take what runs now (None: nothing). Return for how long, if that is to be reported."""
        if epoch is None or epoch != self.epoch:
            self.epoch, self.since_s, self.report_at_s = epoch, now_s, 0.0
            return None
        taken_s = now_s - self.since_s
        if taken_s < self.report_at_s:
            return None
        if not self.report_at_s:  # reading how long the last epochs took costs more than a look
            self.report_at_s = limit_s()
            if taken_s < self.report_at_s:
                return None
        self.report_at_s = 2 * max(taken_s, self.report_at_s)
        return taken_s


def stays(is_busy: Callable[[], bool], for_s: float = CONFIRMED_S) -> bool:
    """Look without a pause. Return whether it was busy at each look.

    An idle query whose source takes a second to list its files rests for only 5 ms between two rounds.
    """
    until = time.monotonic() + for_s
    while is_busy():
        if time.monotonic() >= until:
            return True
        time.sleep(_BETWEEN_LOOKS_S)
    return False


def incident_of(epoch: int, taken_s: float, stacks: dict[int, str], *, elsewhere: bool) -> Incident:
    """Return the entry for the log of incidents."""
    parts = [f"epoch {epoch} has made no progress for {taken_s:.0f} s"]
    for pid, text in list(stacks.items())[:_MOST_WORKERS]:
        parts.append(f"process {pid}:\n{text[:_MOST_CHARACTERS].rstrip() or 'it wrote no stacks'}")
    if len(stacks) > _MOST_WORKERS:
        parts.append(f"and {len(stacks) - _MOST_WORKERS} further processes")
    if elsewhere:
        parts.append("workers on executors of the cluster cannot be asked from here: use py-spy there")
    elif not stacks:
        parts.append("no Python worker runs: Spark plans the epoch or commits it (see spark.log)")
    action = (
        "the run goes on waiting; if this is a deadlock, end the process named here: the epoch is repeated"
    )
    return Incident(time.time_ns(), epoch, "handled", "\n".join(parts), action)


def stacks_of_workers() -> dict[int, str]:
    """Return the stacks of the Python workers below this process; nothing if no folder was set for them."""
    folder = os.environ.get(FOLDER)
    return collect_stacks(Path(folder), psutil.Process().children(recursive=True)) if folder else {}
