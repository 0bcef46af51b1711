"""Hold a running topology between two epochs, from other processes, for a moment.

Spark asks the intake for the next offset only when no epoch is in flight. So a requester leaves a request,
the intake acknowledges it there and waits until the request is withdrawn. Each requester has files of its
own: several hold the run together or one after the other, and none can end the hold of another. A hold has
a limit: the intake withdraws its acknowledgement before it goes on, so a requester that still finds it
knows that nothing moved. An acknowledgement carries the runner's fencing token: that of a replaced runner
holds nobody.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.connect.sink import write_atomically
from penstock.control.run_directory import RunDirectory

_LOOK_EVERY_S = 0.002
_REQUEST, _ANSWER = ".request", ".answer"


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
        token = self._run.term()
        return bool(token) and _answer(self._run, self.nonce, token).exists()

    def require(self) -> None:
        """Raise HoldLost unless no epoch has begun since."""
        if not self.is_on:
            raise HoldLost


@dataclass(frozen=True, slots=True)
class Standstill:
    """A run that waits between two epochs: the intake's side of all holds, without files or clocks."""

    deadlines: Mapping[str, float] = field(default_factory=dict)
    """Until when each requester whose hold was acknowledged is waited for."""
    join_until: float | None = None
    """Requests that come later than this wait for the next epoch boundary: the run must go on at last."""

    def step(
        self, wanted: Mapping[str, float], now: float
    ) -> tuple[Standstill, frozenset[str], frozenset[str]]:
        """Look at the requests that are there, by requester with their limits in seconds.

        Return the state after that, the requesters to acknowledge, and those whose time is over.
        """
        kept = {name: until for name, until in self.deadlines.items() if name in wanted}
        late = frozenset(name for name, until in kept.items() if now >= until)
        new = {name: now + limit for name, limit in wanted.items() if name not in self.deadlines}
        if self.join_until is not None and (now >= self.join_until or not kept):
            new = {}
        join_until = self.join_until
        if join_until is None and new:
            join_until = min(new.values())
        waiting = {name: until for name, until in {**kept, **new}.items() if name not in late}
        return Standstill(waiting, join_until), frozenset(new), late

    @property
    def is_over(self) -> bool:
        """Whether nobody is waited for."""
        return not self.deadlines


def honour_hold(run: RunDirectory, term: str) -> None:
    """Wait here, in the intake, for as long as requesters want, up to the limits that they set."""
    state = Standstill()
    while True:
        wanted = _requests(run)
        before = state
        state, new, late = state.step(wanted, time.monotonic())
        for nonce in new:
            write_atomically(_answer(run, nonce, term), b"")
        for nonce in before.deadlines.keys() - state.deadlines.keys():
            _answer(run, nonce, term).unlink(missing_ok=True)
        for nonce in late:  # its requester is dead or too slow: it must not hold the next epoch too
            _request(run, nonce).unlink(missing_ok=True)
        if state.is_over:
            return
        time.sleep(_LOOK_EVERY_S)


def clear_holds(run: RunDirectory) -> None:
    """End every hold; a requester that is still there notices, and asks again."""
    answers = [path for path in _files(run) if path.name.endswith(_ANSWER)]
    for path in (*answers, *_files(run), run.path / "hold.request", run.path / "hold.answer"):
        path.unlink(missing_ok=True)


@contextmanager
def hold(run: RunDirectory, *, limit_s: float, give_up: Callable[[], bool]) -> Iterator[Hold | None]:
    """Hold the run for the body of the statement; None if ``give_up`` came true before that."""
    made = Hold(uuid.uuid4().hex, run)
    request = _request(run, made.nonce)
    try:
        while not made.is_on:
            if give_up():
                yield None
                return
            if not request.exists():  # a run that has just begun clears what it finds
                write_atomically(request, json.dumps(limit_s).encode())
            time.sleep(_LOOK_EVERY_S)
        yield made
    finally:
        request.unlink(missing_ok=True)


def _requests(run: RunDirectory) -> dict[str, float]:
    """Return the requests that are there; one that is withdrawn meanwhile is none."""
    found = {}
    for path in _files(run):
        if path.name.endswith(_REQUEST):
            try:
                found[path.name.removesuffix(_REQUEST)] = float(json.loads(path.read_text()))
            except FileNotFoundError:
                continue
    return found


def _files(run: RunDirectory) -> list[Path]:
    return [path for path in (run.path / "holds").glob("[!.]*") if path.name.endswith((_REQUEST, _ANSWER))]


def _request(run: RunDirectory, nonce: str) -> Path:
    return run.path / "holds" / f"{nonce}{_REQUEST}"


def _answer(run: RunDirectory, nonce: str, term: str) -> Path:
    return run.path / "holds" / f"{nonce}.{term}{_ANSWER}"
