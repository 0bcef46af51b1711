"""Schedules that need places of their own run beside the others, in a process of their own.

`main` is that process. The first line of its standard input is its work, and each further one lets a round
begin. It gives outcomes on standard output; when its input ends, so does it.
"""

from __future__ import annotations

import base64
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

import cloudpickle

from penstock.errors import InternalError
from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.grounds import Grounds
from penstock.testing.chaos.processes import end_with_parent
from penstock.testing.chaos.schedules import Scenario, in_turn
from penstock.testing.chaos.trial import Outcome, run_schedule


@dataclass(frozen=True, slots=True)
class Work:
    """What to let loose on what."""

    scenarios: Sequence[Scenario]
    checks: Sequence[Check]
    seed: int


class Lane:
    """Runs schedules elsewhere, no faster than the rounds here."""

    def __init__(self, work: Work, tell: Callable[[Outcome], None]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._rounds = 0
        self._hearing = threading.Thread(target=self._hear, args=(tell,), daemon=True)
        self._send(base64.b64encode(cloudpickle.dumps(work)) + b"\n")
        self._hearing.start()

    def advance(self, number: int) -> None:
        """A round has begun here, so it may there."""
        while self._rounds <= number:
            self._rounds += 1
            self._send(b"\n")

    def begin_no_more(self) -> None:
        """Let no further schedule begin there."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def finish(self) -> None:
        """Wait for the schedule that is under way."""
        self.begin_no_more()
        self._hearing.join()
        if self._process.wait() != 0:
            raise InternalError(
                what="the process for schedules beside the others has died; see what it printed"
            )

    def close(self) -> None:
        """End it with all that it has started."""
        self._process.terminate()
        self._hearing.join()
        self._process.wait()

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: what it has told counts, and the others go on
            self._process.stdin.write(message)
            self._process.stdin.flush()

    def _hear(self, tell: Callable[[Outcome], None]) -> None:
        assert self._process.stdout is not None
        with suppress(EOFError):
            while True:
                tell(pickle.load(self._process.stdout))


@contextmanager
def lane_for(work: Work, tell: Callable[[Outcome], None]) -> Iterator[Lane]:
    """A lane, and nothing of it afterwards."""
    lane = Lane(work, tell)
    try:
        yield lane
    finally:
        lane.close()


class Rounds:
    """The rounds that may begin, as a stream tells with a line for each; its end is the end of all."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._begun = 0
        self._ended = False
        self._news = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def wait_for(self, number: int) -> bool:
        """Whether a round may begin; waits until that is known."""
        with self._news:
            self._news.wait_for(lambda: self._ended or self._begun > number)
            return not self._ended

    def _read(self) -> None:
        while True:
            line = self._stream.readline()
            with self._news:
                self._begun += 1
                self._ended = not line
                self._news.notify()
            if not line:
                return


def standard_input() -> IO[bytes]:
    """Its lines, without a buffer: Python cannot end while a thread waits for more of one."""
    return os.fdopen(os.dup(0), "rb", buffering=0)


def main() -> None:
    """Run what standard input asks for."""
    end_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed here is not an answer
    lines = standard_input()
    work: Work = pickle.loads(base64.b64decode(lines.readline()))
    rounds = Rounds(lines)
    with Grounds() as grounds:
        for schedule in in_turn(work.scenarios, work.checks, work.seed):
            if not rounds.wait_for(schedule.seed - work.seed):
                return
            answers.write(cloudpickle.dumps(run_schedule(schedule, grounds)))
            answers.flush()
