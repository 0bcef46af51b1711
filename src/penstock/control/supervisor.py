"""Keep a run alive: its driver is a process of its own, replaced when it dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock.connect.private import make_private
from penstock.connect.sink import shown_path
from penstock.control.adoption import Adoption, adopt_at_rest
from penstock.control.checkpoint import next_epoch
from penstock.control.driver_process import DriverProcess
from penstock.control.driving import Request
from penstock.control.incidents import Incident, IncidentLog, Kind
from penstock.control.progress import Progress
from penstock.control.restarting import decide, kind_of
from penstock.control.run_directory import RunDirectory
from penstock.control.run_reader import RunReader
from penstock.errors import GaveUp
from penstock.plan.passes import plan

_POLL_S = 0.05
SPARE_AFTER_EPOCHS = 3
"""A spare driver is started when the first one has settled: two at once would start twice as slowly."""
SPARE_AGAIN_S = 60.0
"""So long after one has died: what it lacked, memory perhaps, may be lacking still."""


class SupervisedRun:
    """A run whose driver may die and comes back. Watched like a handle."""

    def __init__(self, request: Request, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.run_directory = RunDirectory(request.directory)
        self._incidents = IncidentLog(self.run_directory.incidents)
        self._told = self._incidents.read_on(0)[1]
        self.request = replace(request, old_incidents=self._told)
        self.driver: DriverProcess | None = None
        self.spare: DriverProcess | None = None
        self._clock = clock
        self._reader = RunReader(self.run_directory)
        self._start_at = self._spare_at = clock()
        self._started_after = -1
        self._ending = False

    def adopt(self) -> Adoption | None:
        """Propose the request's topology to the run, once; the drivers get none. None if that is done.

        Done by ``poll`` if nobody has done it before. Raises what forbids the run.
        """
        topology = self.request.topology
        if topology is None:
            return None
        adoption = adopt_at_rest(self.run_directory, plan(topology), self.request.options)
        # The run was taken over just now; a driver must not take it over from a runner that comes later.
        options = replace(self.request.options, take_over=False)
        self.request = replace(self.request, topology=None, options=options)
        if report := adoption.report():
            with open(self.run_directory.console_log, "a") as file:
                file.write(f"{report}\n")
        return adoption

    @property
    def directory(self) -> Path:
        return self.run_directory.path

    def progress(self) -> Progress | None:
        """The newest committed epoch."""
        return self._reader.progress()

    def history(self) -> list[Progress]:
        """The committed epochs, oldest first."""
        return self._reader.history()

    def console(self) -> list[str]:
        """Lines of console sinks and new incidents, since the last call."""
        fresh, self._told = self._incidents.read_on(self._told)
        lines = [f"incident at epoch {i.epoch}: {i.what}\n  → {i.action}" for i in fresh]
        return [*self._reader.console(), *lines]

    def poll(self, timeout_s: float) -> bool:
        """Wait a while; True when the run has ended. Raises what ended it for good."""
        deadline = self._clock() + timeout_s
        while True:
            if self._has_ended():
                return True
            if self._clock() >= deadline:
                return False
            time.sleep(_POLL_S)

    def wait(self) -> None:
        """Wait for the end of the run. Raises what ended it for good."""
        while not self.poll(1.0):
            pass

    def stop(self) -> None:
        """Ask the driver to end at its next epoch boundary; ``poll`` tells when it has."""
        self._ending = True
        if self.driver is not None:
            self.driver.ask_to_end()

    def close(self) -> None:
        """End what is left of the run, at once."""
        for process in (self.driver, self.spare):
            if process is not None:
                process.close()
        self.driver = self.spare = None

    def __enter__(self) -> SupervisedRun:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _has_ended(self) -> bool:
        if self.driver is None:
            if self._ending:
                return True
            if self._clock() >= self._start_at:
                self._start_driver()
            return False
        code = self.driver.code()
        if code is None:
            self._keep_spare()
            return False
        driver, self.driver = self.driver, None
        answer = driver.answer()
        driver.close()  # its JVM and workers may still run for a moment
        if answer is not None and not answer.again:
            if answer.error is not None:
                raise answer.error
            return True
        if answer is not None and answer.error is not None:
            self._settle(str(answer.error), kind_of(answer.error))
        else:
            self._settle(f"the driver process {driver.ended_how(code)} (see {self._shown_log})", "death")
        return False

    def _start_driver(self) -> None:
        self._started_after = self._epoch()
        try:
            if self.spare is not None and self.spare.code() is None:
                self.spare.go()
                self.driver, self.spare = self.spare, None
            else:
                make_private(self.directory)
                self.adopt()
                self.driver = DriverProcess(self.request, self._log)
        except OSError as error:
            self._settle(f"the driver process could not be started ({error})", kind_of(error))

    def _keep_spare(self) -> None:
        if not self.request.standby or self._ending:
            return
        code = None if self.spare is None else self.spare.code()
        if self.spare is not None and code is not None:
            self.spare.close()
            how = self.spare.ended_how(code)
            self.spare = None
            self._do_without_spare(f"the spare driver {how} (see {self._shown_log})")
        settled = self._epoch() >= self._started_after + SPARE_AFTER_EPOCHS
        if self.spare is None and settled and self._clock() >= self._spare_at:
            try:
                self.spare = DriverProcess(self.request, self._log, spare=True)
            except OSError as error:
                self._do_without_spare(f"the spare driver could not be started ({error})")

    def _do_without_spare(self, what: str) -> None:
        self._spare_at = self._clock() + SPARE_AGAIN_S
        action = f"the run goes on; another one is started in {SPARE_AGAIN_S:.0f} s"
        epoch = next_epoch(self.run_directory.checkpoint)
        self._incidents.add(Incident(time.time_ns(), epoch, "handled", what, action))

    def _settle(self, what: str, kind: Kind) -> None:
        """Log the driver's end and set the time of the next start; raises if there is none."""
        incident = Incident(time.time_ns(), next_epoch(self.run_directory.checkpoint), kind, what, "")
        before = self._incidents.read(self.request.old_incidents)
        decision = decide(self.request.policy, before, incident)
        self._incidents.add(replace(incident, action=decision.action))
        if decision.wait_s is None:
            name = self.run_directory.topology()
            raise GaveUp(topology=name, why=decision.why, cause=what, directory=self.directory)
        self._start_at = self._clock() + decision.wait_s

    def _epoch(self) -> int:
        last = self.progress()
        return last.epoch if last else -1

    @property
    def _log(self) -> Path:
        return self.directory / "driver.log"

    @property
    def _shown_log(self) -> str:
        return shown_path(str(self._log))
