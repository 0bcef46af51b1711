"""One schedule: a run that goes wrong as its faults say and is started again, until all its rows are out."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.control.run_directory import RunDirectory
from penstock.errors import PenstockError, RunDirectoryBroken
from penstock.spark.options import Until
from penstock.testing.chaos import faults as points
from penstock.testing.chaos.actions import ACTIONS, NobodyThere
from penstock.testing.chaos.damage import Damaged
from penstock.testing.chaos.endings import LEFTOVER
from penstock.testing.chaos.faults import COMMITTED
from penstock.testing.chaos.final_state import state_differs
from penstock.testing.chaos.kept_log import KeptLog
from penstock.testing.chaos.oracle import (
    Difference,
    differences,
    events_of,
    expected_of,
    hops_of,
    rows_of_sinks,
)
from penstock.testing.chaos.places import Job, Place, Running
from penstock.testing.chaos.processes import wake
from penstock.testing.chaos.schedules import Schedule
from penstock.testing.chaos.watched import with_points
from penstock.topology.stream import Topology

if TYPE_CHECKING:
    from penstock.testing.chaos.grounds import Grounds

_LOOK_EVERY_S = 0.05
_AGAIN_AFTER_S = 0.1
_EPOCH_S = 0.4
_FAILURES_AT_MOST = 12
_SECONDS_AT_MOST = 300.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a schedule went."""

    schedule: Schedule
    events: int
    seconds: float
    recovery_s: float
    """The longest time from a fault to the next committed epoch."""
    sinks: dict[str, Difference] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    """What ended the run for a while, by condition; only errors that the scenario expects."""
    trouble: str = ""
    """What must not be: any other error, a run that does not end, a runner that was not refused."""
    unfired: tuple[str, ...] = ()
    """Faults that have not happened: the run did not come to their point, or nobody was there to be hit."""
    folder: Path | None = None
    """What the run has left; kept if something went wrong."""

    @property
    def difference(self) -> Difference:
        """Over all sinks; trouble counts as wrong."""
        return sum(self.sinks.values(), Difference(wrong=int(bool(self.trouble))))

    @property
    def fired(self) -> bool:
        """Whether any fault has happened."""
        return len(self.unfired) < len(self.schedule.faults)


class Trouble(Exception):
    """A schedule cannot go on as it should."""


class Trial:
    """Runs a schedule in a folder of its own."""

    def __init__(self, schedule: Schedule, folder: Path, place: Place) -> None:
        self.schedule = schedule
        self.folder = folder
        self.place = place
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        self.faults = folder / "faults"
        self.directory = RunDirectory(folder / "run")
        self.chance = random.Random(f"acts/{schedule}")
        plain = schedule.check.build(self.data)
        self.topology = with_points(plain, self.faults)
        self.versions: dict[int, Topology] = {1: plain}
        """For the reference engine: without points, or faults would happen to the harness."""
        self.fed = 0
        """The last part of the input that was added."""
        self.failures: list[str] = []
        self.log = KeptLog(self.directory)
        self.damaged: Damaged | None = None
        """A file that an action has damaged and that the run has not complained of yet."""
        self.successor: Running | None = None
        """A run that has taken over from the one that is watched."""
        self.demands: list[Callable[[], str]] = []
        """What must have come true at the end; each gives what is amiss, or nothing."""
        self._later: list[tuple[float, Callable[[], None]]] = []

    @property
    def job(self) -> Job:
        """What is started, and started again."""
        check = self.schedule.check
        until: Until = "caught-up" if check.feeds else "finished"
        return Job(self.topology, self.directory.path, until, check.options)

    def run(self) -> Outcome:
        """Until all input is through; compare with the reference engine then."""
        began = time.monotonic()
        points.lay_out(self.faults, self.schedule.faults)
        sinks: dict[str, Difference] = {}
        trouble, events = "", 0
        try:
            self._feed_and_run(began + _SECONDS_AT_MOST)
            reference = expected_of(self.versions, self.log.offsets(), hops_of(self.directory))
            sinks = differences(self.versions, self.directory, reference)
            events = events_of(reference)
            self._do_what_is_due(at_once=True)
            found = [self._against_closed_form(), state_differs(self.directory, reference)]
            found += [demand() for demand in self.demands]
            trouble = "; ".join(filter(None, found))
        except Trouble as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the table shows it
            trouble = f"{type(error).__name__}: {error}"
        self._do_what_is_due(at_once=True)
        return Outcome(
            self.schedule,
            events,
            seconds=time.monotonic() - began,
            recovery_s=self._recovery_s(),
            sinks=sinks,
            failures=tuple(self.failures),
            trouble=trouble,
            unfired=self._faults_that(happened=False),
            folder=self.folder,
        )

    def _against_closed_form(self) -> str:
        """Return how the sinks differ from what the check's formula says of them."""
        closed_form = self.schedule.check.closed_form
        if closed_form is None:
            return ""
        return closed_form(rows_of_sinks(self.versions[max(self.versions)], self.directory))

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something in a while, at the latest at the end."""
        self._later.append((time.monotonic() + seconds, do))

    def _feed_and_run(self, deadline: float) -> None:
        check = self.schedule.check
        for part in range(check.feeds + 1):
            if part and check.feed is not None:
                self._do_what_is_due(at_once=True)  # who brings input needs room on the disk, too
                check.feed(self.data, part)
                self.fed = part
            while not self._run_once(deadline):
                self._do_what_is_due()
                if time.monotonic() > deadline:
                    raise Trouble(f"it did not end in {_SECONDS_AT_MOST:.0f} s; {self._fate()}")

    def _run_once(self, deadline: float) -> bool:
        """Start, and watch until the end (True) or until it has to be started again."""
        try:
            running, self.successor = self.successor, None
            running = running or self.place.start(self.job)
            try:
                while not running.poll(_LOOK_EVERY_S):
                    if time.monotonic() > deadline:
                        raise Trouble(f"it hangs; {self._fate()}")
                    if not self._tend(running):
                        return False
                return True
            finally:
                if self.successor is None:
                    running.end()
        except PenstockError as error:
            self._take(error)
            return False

    def _take(self, error: PenstockError) -> None:
        """A failure that was to be expected: mend what was damaged, and go on."""
        if not self._is_expected(error):
            raise Trouble(f"it ended with {error}; {self._fate()}")
        self.failures.append(error.condition)
        if self.damaged is not None:
            self.damaged.mend()
            self.damaged = None
        if len(self.failures) > _FAILURES_AT_MOST:
            raise Trouble(f"it failed {len(self.failures)} times, the last time with {error}")
        time.sleep(_AGAIN_AFTER_S * len(self.failures))  # longer each time: a full disk fails at once

    def _is_expected(self, error: PenstockError) -> bool:
        if not points.fired(self.faults):
            return LEFTOVER.fits(error) and not self.failures
        if not self.schedule.scenario.expects(error):
            return False
        if isinstance(error, RunDirectoryBroken):
            return self.damaged is not None and self.damaged.is_named_by(error)
        return True

    def _tend(self, running: Running) -> bool:
        """Let happen what is due; False if the run was ended by it."""
        self.log.look()
        for path, pid in points.frozen(self.faults):
            self.after(self.schedule.faults[int(path.stem)].seconds, partial(wake, pid))
            path.unlink()
        self._do_what_is_due()
        for path in points.held(self.faults):
            self._end_at(running, path)
            return False
        last = self.directory.last_progress()
        for number, fault in enumerate(self.schedule.faults):
            due = last is not None and fault.point == COMMITTED and last.epoch + 1 >= fault.visit
            if due and number not in points.fired(self.faults):
                time.sleep(self.chance.uniform(0, _EPOCH_S))  # not always at the same moment of an epoch
                points.claim(self.faults, number)
                try:
                    return ACTIONS[fault.action](self, running, fault)
                except NobodyThere:
                    points.disclaim(self.faults, number)
        return True

    def _do_what_is_due(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        due = [entry for entry in self._later if at_once or entry[0] <= now]
        self._later = [entry for entry in self._later if entry not in due]
        for _, do in due:
            do()

    def _end_at(self, running: Running, held: Path) -> None:
        """End the query while a process of it waits at a point."""
        ending = threading.Thread(target=running.end_abruptly)
        ending.start()
        time.sleep(self.chance.choice((0.0, 0.2)))
        held.unlink()
        ending.join()

    def _fate(self) -> str:
        told = "; ".join(self._faults_that(happened=True)) or "nothing"
        if self.damaged is not None:
            told += f" ({self.damaged.path.relative_to(self.directory.path)})"
        return f"happened so far: {told}; failures: {', '.join(self.failures) or 'none'}"

    def _faults_that(self, *, happened: bool) -> tuple[str, ...]:
        hit = points.fired(self.faults)
        faults = enumerate(self.schedule.faults)
        return tuple(str(fault) for number, fault in faults if (number in hit) == happened)

    def _recovery_s(self) -> float:
        """By the times of files: what processes write down may come from a clock that was moved."""
        commits = [_written_ns(path) for path in (self.directory.checkpoint / "commits").glob("[0-9]*")]
        waits = [
            min((at for at in commits if at > hit), default=hit) - hit
            for hit in points.fired(self.faults).values()
        ]
        return max(waits, default=0) / 1e9


def _written_ns(path: Path) -> int:
    """When a file was written; 0 if it has just been cleaned up."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def run_schedule(schedule: Schedule, grounds: Grounds) -> Outcome:
    """Run one schedule; its folder is kept if something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-chaos-", dir=grounds.folder_for(schedule.scenario)))
    try:
        outcome = Trial(schedule, folder, grounds.place_for(schedule.scenario)).run()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    grounds.get_ready()
    if not outcome.difference:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome
