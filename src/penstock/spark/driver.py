"""`python -m penstock.spark.driver FOLDER PID`: the process that runs a topology for its supervisor.

It starts the query again in the same JVM after failures that leave the JVM alive, which takes a second or two
instead of twenty. What it cannot mend itself it leaves to the supervisor, by what it answers.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import psutil

from penstock.connect.sink import write_atomically
from penstock.control.checkpoint import next_epoch
from penstock.control.driving import GO, READY, Answer, Request
from penstock.control.incidents import Incident, IncidentLog
from penstock.control.restarting import decide, kind_of
from penstock.control.run_directory import RunDirectory
from penstock.errors import (
    EnvironmentChanged,
    Fenced,
    GaveUp,
    PenstockError,
    RunDirectoryInUse,
    RunDirectoryMismatch,
    SparkGone,
)
from penstock.spark.newcomers import Newcomers
from penstock.spark.runner import SPARK_IS_GONE, Handle, resume
from penstock.spark.session import is_one_process, spark_is_gone
from penstock.spark.stack_files import FOLDER
from penstock.spark.stalls import StallClock, incident_of, limit_after, stacks_of_workers, stays
from penstock.spark.warm_up import warm_up

_LOOK_EVERY_S = 0.2
_STOPPED_FOR_S = 5.0
_PR_SET_PDEATHSIG = 1
_MOST_WORDS = 2000
_NOT_OURS = (Fenced, RunDirectoryInUse, RunDirectoryMismatch)
"""After these the directory is another runner's, and so is its log."""


@dataclass
class Driver:
    """Keeps one run going in this process, under whatever version its directory says is current."""

    request: Request
    _ending: bool = False
    _incidents: IncidentLog = field(init=False)
    _stopped_since: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._incidents = IncidentLog(self._directory.incidents)

    def end(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """The supervisor's wish: end at the next epoch boundary.

        A flag and no Event: the signal may come again while this runs, and a lock would wait for itself.
        """
        self._ending = True

    def wait_for_turn(self, folder: Path) -> bool:
        """If it is a spare one: get Spark ready and wait until it is needed; False if it never is."""
        if not (folder / GO).exists():
            warm_up(self.request.options)
            (folder / READY).touch()
        while not (folder / GO).exists():
            if self._ends_within(_LOOK_EVERY_S / 4):
                return False
        return True

    def run(self) -> Answer:
        """Until the run has ended, or cannot be mended here."""
        options = self.request.options
        while True:
            try:
                with resume(self.request.directory, options) as handle:
                    options = replace(options, take_over=False)
                    self._watch(handle)
                return Answer()
            except SparkGone as error:
                return Answer(error=error, again=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is logged and decided about
                if spark_is_gone():
                    return Answer(error=self._without_spark(error), again=True)
                if answer := self._settle(error):
                    return answer

    def _watch(self, handle: Handle) -> None:
        newcomers = Newcomers(handle, self.request.options, self._incidents)
        clock = StallClock()
        try:
            while not handle.poll(_LOOK_EVERY_S):
                if self._ending:
                    handle.stop()
                    return
                self._end_stopped_workers()
                newcomers.look()
                self._report_stall(handle, clock)
        finally:
            newcomers.end()

    def _report_stall(self, handle: Handle, clock: StallClock) -> None:
        options = self.request.options
        fixed_s = None if options.stall_after is None else options.stall_after.total_seconds()

        def limit_s() -> float:
            return limit_after([progress.epoch_ms / 1e3 for progress in handle.history()], fixed_s)

        def is_busy() -> bool:
            return bool(handle.query.status["isTriggerActive"]) and not self._ending

        with suppress(*SPARK_IS_GONE):  # the next poll says so
            epoch = next_epoch(self._directory.checkpoint) if is_busy() else None
            taken_s = clock.look(time.monotonic(), epoch=epoch, limit_s=limit_s)
            if taken_s is None or epoch is None:
                return
            if not stays(is_busy):
                clock.epoch = None
                return
            elsewhere = not is_one_process(options.master)
            self._incidents.add(incident_of(epoch, taken_s, stacks_of_workers(), elsewhere=elsewhere))

    def _ends_within(self, seconds: float) -> bool:
        """Wait, and tell whether the supervisor has asked to end meanwhile."""
        until = time.monotonic() + seconds
        while not self._ending and time.monotonic() < until:
            time.sleep(min(_LOOK_EVERY_S / 4, seconds))
        return self._ending

    def _tell_handled(self, what: str) -> None:
        epoch = next_epoch(self._directory.checkpoint)
        self._incidents.add(Incident(time.time_ns(), epoch, "handled", what, "it was ended"))

    def _settle(self, error: Exception) -> Answer | None:
        """Log the failure and wait before the next attempt; an answer if there is none."""
        epoch = next_epoch(self._directory.checkpoint)
        incident = Incident(time.time_ns(), epoch, kind_of(error), str(error), "")
        before = self._incidents.read(self.request.old_incidents)
        decision = decide(self.request.policy, before, incident)
        if not isinstance(error, _NOT_OURS):
            self._incidents.add(replace(incident, action=decision.action))
        if decision.wait_s is not None:
            return Answer() if self._ends_within(decision.wait_s) else None
        if isinstance(error, PenstockError) and incident.kind in ("final", "code"):
            return Answer(error=error)
        topology = self._directory.topology()
        return Answer(
            error=GaveUp(
                topology=topology, why=decision.why, cause=str(error), directory=self.request.directory
            )
        )

    def _without_spark(self, error: Exception) -> SparkGone:
        epoch = next_epoch(self._directory.checkpoint)
        return SparkGone(topology=self._directory.topology(), epoch=epoch, reason=str(error)[:_MOST_WORDS])

    def _end_stopped_workers(self) -> None:
        """A Python worker that was stopped (SIGSTOP) would hold the epoch up for ever."""
        now, stopped = time.monotonic(), {}
        for process in psutil.Process().children(recursive=True):
            try:
                if process.status() == psutil.STATUS_STOPPED:
                    stopped[process.pid] = self._stopped_since.get(process.pid, now)
                    if now - stopped[process.pid] > _STOPPED_FOR_S:
                        process.kill()
                        self._tell_handled(f"process {process.pid}, a worker, had been stopped for long")
            except psutil.NoSuchProcess:
                continue
        self._stopped_since = stopped

    @property
    def _directory(self) -> RunDirectory:
        return RunDirectory(self.request.directory)


def main(folder: Path, supervisor: int) -> None:
    """Serve the request in the folder and leave an answer there."""
    try:
        driver = Driver(Request.read(folder))
    except EnvironmentChanged as error:
        write_atomically(folder / "answer.pickle", pickle.dumps(Answer(error=error)))
        return
    # For the JVM and the workers below it; the folder goes with this process.
    os.environ[FOLDER] = str(folder)
    signal.signal(signal.SIGTERM, driver.end)
    _end_with(supervisor, driver)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, which tells us
    answer = driver.run() if driver.wait_for_turn(folder) else Answer()
    write_atomically(folder / "answer.pickle", pickle.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # not sys.exit: that would wait for a Spark that may be gone


def _end_with(supervisor: int, driver: Driver) -> None:
    """Have SIGTERM sent should the supervisor be killed (Linux; elsewhere the run goes on alone)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:  # it was killed already
        driver.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
