"""Hold a running topology between two epochs, from another process, for a moment.

Spark asks the intake for the next offset only when no epoch is in flight. So the requester leaves a request,
the intake acknowledges it there and waits until the request is withdrawn. A hold has a time limit: the intake
withdraws its acknowledgement before it goes on, so a requester that still finds it knows that nothing moved.
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

_LOOK_EVERY_S = 0.002


class HoldLost(Exception):
    """The run went on, or another one began, before the requester was done."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold that was acknowledged."""

    nonce: str
    _answer: Path

    def require(self) -> None:
        """Raise HoldLost unless no epoch has begun since."""
        if _text(self._answer) != self.nonce:
            raise HoldLost


def honour_hold(directory: Path) -> None:
    """The intake's side: wait here for as long as a requester wants, up to the limit that it set."""
    wanted = _text(directory / "hold.request")
    if wanted is None:
        return
    nonce, limit_s = json.loads(wanted)
    answer = directory / "hold.answer"
    write_atomically(answer, nonce.encode())
    deadline = time.monotonic() + limit_s
    while _text(directory / "hold.request") == wanted:
        if time.monotonic() >= deadline:
            clear_holds(directory)  # its requester is dead or too slow: it must not hold the next epoch too
            return
        time.sleep(_LOOK_EVERY_S)
    answer.unlink(missing_ok=True)


def clear_holds(directory: Path) -> None:
    """End every hold; a requester that is still there notices."""
    (directory / "hold.answer").unlink(missing_ok=True)
    (directory / "hold.request").unlink(missing_ok=True)


@contextmanager
def hold(directory: Path, *, limit_s: float, give_up: Callable[[], bool]) -> Iterator[Hold | None]:
    """Hold the run for the body of the statement; None if ``give_up`` came true before that."""
    nonce = uuid.uuid4().hex
    request, answer = directory / "hold.request", directory / "hold.answer"
    wanted = json.dumps([nonce, limit_s])
    try:
        while _text(answer) != nonce:
            if give_up():
                yield None
                return
            if _text(request) != wanted:  # a run that has just begun clears what it finds
                write_atomically(request, wanted.encode())
            time.sleep(_LOOK_EVERY_S)
        yield Hold(nonce, answer)
    finally:
        if _text(request) == wanted:
            request.unlink(missing_ok=True)


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
