"""Hold a running topology between two epochs, from another process, for a moment.

Spark asks the intake for the next offset only when no epoch is in flight. So the requester leaves a request,
the intake acknowledges it there and waits until the request is withdrawn. A hold has a time limit: the intake
withdraws its acknowledgement before it goes on, so a requester that still finds it knows that nothing moved.
It is one of a runner's term: that of a runner which another one has replaced holds nobody.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.connect.sink import write_atomically
from penstock.control.run_directory import RunDirectory

_LOOK_EVERY_S = 0.002


class HoldLost(Exception):
    """The run went on, or another one began, before the requester was done."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold that was acknowledged."""

    nonce: str
    _run: RunDirectory

    @property
    def is_on(self) -> bool:
        """Whether the run's present runner waits for us."""
        return _text(_answer(self._run)) == f"{self.nonce} {self._run.term()}"

    def require(self) -> None:
        """Raise HoldLost unless no epoch has begun since."""
        if not self.is_on:
            raise HoldLost


def honour_hold(run: RunDirectory, term: str) -> None:
    """The intake's side: wait here for as long as a requester wants, up to the limit that it set."""
    wanted = _text(_request(run))
    if wanted is None:
        return
    nonce, limit_s = json.loads(wanted)
    write_atomically(_answer(run), f"{nonce} {term}".encode())
    deadline = time.monotonic() + limit_s
    while _text(_request(run)) == wanted:
        if time.monotonic() >= deadline:
            clear_holds(run)  # its requester is dead or too slow: it must not hold the next epoch too
            return
        time.sleep(_LOOK_EVERY_S)
    _answer(run).unlink(missing_ok=True)


def clear_holds(run: RunDirectory) -> None:
    """End every hold; a requester that is still there notices."""
    _answer(run).unlink(missing_ok=True)
    _request(run).unlink(missing_ok=True)


@contextmanager
def hold(run: RunDirectory, *, limit_s: float, give_up: Callable[[], bool]) -> Iterator[Hold | None]:
    """Hold the run for the body of the statement; None if ``give_up`` came true before that."""
    made = Hold(uuid.uuid4().hex, run)
    request, wanted = _request(run), json.dumps([made.nonce, limit_s])
    try:
        while not made.is_on:
            if give_up():
                yield None
                return
            if _text(request) != wanted:  # a run that has just begun clears what it finds
                write_atomically(request, wanted.encode())
            time.sleep(_LOOK_EVERY_S)
        yield made
    finally:
        if _text(request) == wanted:
            request.unlink(missing_ok=True)


def _request(run: RunDirectory) -> Path:
    return run.path / "hold.request"


def _answer(run: RunDirectory) -> Path:
    return run.path / "hold.answer"


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
