"""Schedules that need places of their own run beside the others, in a process of their own.

`python -m penstock.testing.chaos.lane` is that process. It gets its work on standard input, then a line for
each round that may begin, and gives outcomes on standard output; when its input ends, so does it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import cloudpickle

from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.grounds import Grounds
from penstock.testing.chaos.processes import end_with_parent
from penstock.testing.chaos.schedules import Scenario, in_turn
from penstock.testing.chaos.trial import Outcome, run_schedule

_LAST = signal.SIGUSR1
"""Asks the process to begin no further schedule."""


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
        self._send(cloudpickle.dumps(work))
        self._hearing.start()

    def advance(self, number: int) -> None:
        """A round has begun here, so it may there."""
        while self._rounds <= number:
            self._rounds += 1
            self._send(b"\n")

    def finish(self) -> None:
        """Let it finish the schedule that is under way."""
        assert self._process.stdin is not None
        self._process.send_signal(_LAST)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._hearing.join()

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
def lane_for(work: Work, tell: Callable[[Outcome], None]) -> Iterator[Lane | None]:
    """A lane while there is work for it."""
    lane = Lane(work, tell) if work.scenarios else None
    try:
        yield lane
    finally:
        if lane is not None:
            lane.close()


def main() -> None:
    """Run what standard input asks for."""
    end_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    ending: list[int] = []
    signal.signal(_LAST, lambda number, _: ending.append(number))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed here is not an answer
    work: Work = pickle.load(sys.stdin.buffer)
    rounds = 0
    with Grounds() as grounds:
        for schedule in in_turn(work.scenarios, work.checks, work.seed):
            while rounds <= schedule.seed - work.seed:
                if not sys.stdin.buffer.readline():
                    return
                rounds += 1
            if ending:
                return
            answers.write(cloudpickle.dumps(run_schedule(schedule, grounds)))
            answers.flush()


if __name__ == "__main__":
    main()
