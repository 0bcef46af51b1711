"""A driver process of a run, as its supervisor sees it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from penstock.connect.private import open_private
from penstock.control.driving import DRIVER, GO, READY, Answer, Request

_STOPPED_FOR_S = 5.0
_LOOK_EVERY_S = 0.5


class DriverProcess:
    """Serves one request; a spare one gets Spark ready and waits until it is needed."""

    def __init__(self, request: Request, log: Path, *, spare: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-run-"))
        self._stopped_since: float | None = None
        self._was_ended = False
        self._look_at = 0.0
        try:
            request.write(self._folder)
            if not spare:
                self.go()
        except OSError:  # no room: it is tried again, and each attempt would leave a folder
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        # In a group of its own: Ctrl-C in the terminal reaches the supervisor, which tells the driver.
        # Standard input is the supervisor's: what is piped in goes on with the next driver.
        with open(log, "ab", opener=open_private) as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", DRIVER, str(self._folder), str(os.getpid())],
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether a spare one has Spark up."""
        return (self._folder / READY).exists()

    def go(self) -> None:
        """Let it run the topology."""
        (self._folder / GO).touch()

    def ask_to_end(self) -> None:
        """At its next epoch boundary."""
        if self._process.poll() is None:
            self._process.terminate()

    def code(self) -> int | None:
        """The exit code, None while it runs. If it or its JVM was stopped (SIGSTOP) for long, it is ended."""
        if self._process.poll() is None and self._stopped_too_long():
            self._was_ended = True
            self.kill()
        return self._process.poll()

    def ended_how(self, code: int) -> str:
        """Its end in words."""
        return "had been stopped for long, and was ended" if self._was_ended else ended_how(code)

    def answer(self) -> Answer | None:
        """What it said at its end; nothing if it died."""
        return Answer.take(self._folder)

    def kill(self) -> None:
        """End it with all that it started."""
        with suppress(ProcessLookupError):  # all of it has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it and clean up."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _stopped_too_long(self) -> bool:
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_EVERY_S
        try:
            driver = psutil.Process(self.pid)
            statuses = [process.status() for process in (driver, *driver.children())]
        except psutil.NoSuchProcess:
            return False
        stopped = psutil.STATUS_STOPPED in statuses
        self._stopped_since = (self._stopped_since or now) if stopped else None
        return self._stopped_since is not None and now - self._stopped_since > _STOPPED_FOR_S


def ended_how(code: int) -> str:
    """An exit code in words.

    >>> ended_how(-9), ended_how(3)
    ('was ended by SIGKILL', 'ended with code 3')
    """
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
