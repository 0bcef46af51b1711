"""Executors that join a run: made ready beside it, then given their share of the slices.

Left to itself Spark keeps the slices where they are: after a failure the survivors do all the work for good.
And when one of them fails in turn, the executor that stood by begins with nothing loaded: the next epoch was
there after twelve seconds instead of one or two.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.control.checkpoint import next_epoch
from penstock.control.incidents import Incident, IncidentLog
from penstock.errors import PenstockError
from penstock.spark.options import RunOptions, partitions_for
from penstock.spark.places import (
    executors,
    forget_places,
    give_shares,
    places,
    that_have_worked,
    waiting_for_places,
)
from penstock.spark.runner import SPARK_IS_GONE, Handle
from penstock.spark.session import is_one_process
from penstock.spark.warm_up import warm_up

_ATTEMPTS = 5
"""So many epochs until state that shall move has moved: one that is under way may have opened it already."""
_SOON_S = 10.0
"""An epoch, or a task, is waited for so long: a run may have nothing to do."""
_READY_WITHIN_S = 60.0
"""An executor that is busy with the run all the time becomes ready by that, and is not waited for longer."""
_UNTIL_READY = "1s"
"""So long a slice's task waits for the executor that has its state while there is one that is not ready.

Else it waits less, see `session`: when an executor is lost, the tasks that wait for it are the outage. With
three seconds, at each of Spark's levels, the next one that was lost meanwhile cost six instead of 1.3.
"""
_LOOK_EVERY_S = 0.1


@dataclass
class Newcomers:
    """Watches which executors a run has. In local mode there is but the driver, and nothing to do."""

    handle: Handle
    options: RunOptions
    incidents: IncidentLog
    _known: frozenset[str] = frozenset()
    _welcome: threading.Thread | None = None
    _ending: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Welcome those that come, and those that will come for one that was lost; none of the first."""
        is_busy = self._welcome is not None and self._welcome.is_alive()
        if is_one_process(self.options.master) or is_busy or self.handle.progress() is None:
            return
        with suppress(*SPARK_IS_GONE):  # the run itself will tell
            before, self._known = self._known, frozenset(executors())
            for lost in sorted(before - self._known):
                self._tell(f"executor {lost} was lost")
            if before and before != self._known:
                self._welcome = threading.Thread(
                    target=self._make_room, args=(before,), name="newcomers", daemon=True
                )
                self._welcome.start()

    def end(self) -> None:
        """Leave nothing running."""
        self._ending.set()
        if self._welcome is not None:
            self._welcome.join()

    def _tell(self, what: str) -> None:
        epoch = next_epoch(self.handle.directory / "checkpoint")
        action = "Spark runs its tasks elsewhere; one that takes its place is made ready"
        self.incidents.add(Incident(time.time_ns(), epoch, "handled", what, action))

    def _make_room(self, before: frozenset[str]) -> None:
        """Wait for executors that were not there before, and let them take part."""
        try:
            self._wait_for_epoch()
            with waiting_for_places(_UNTIL_READY):
                newcomers = self._await_newcomers(before)
                if self._ending.is_set():
                    return
                _join_session()
                cores = SparkContext.getOrCreate().defaultParallelism
                options = replace(self.options, partitions=partitions_for(cores))
                warm_up(options, self.handle.directory / "warm-up", until=_Reached(newcomers, self._ending))
            for _ in range(_ATTEMPTS):
                if self._ending.is_set() or not give_shares(self.handle):
                    break
                self._wait_for_epoch()
        except (
            PenstockError,
            *SPARK_IS_GONE,
        ) as error:  # the run goes on as it was
            sys.stderr.write(f"a new executor was not made ready, and gets no slices: {error}\n")

    def _await_newcomers(self, before: frozenset[str]) -> frozenset[str]:
        """Those that have come, once they are through with a task.

        Spark gives a new executor one of the run at once, and what starts beside it would hold it up.
        """
        while not (newcomers := frozenset(executors()) - before) and not self._ending.wait(_LOOK_EVERY_S):
            pass
        self._wait_until(lambda: newcomers <= that_have_worked())
        return newcomers

    def _wait_for_epoch(self) -> None:
        before = self.handle.progress()
        self._wait_until(lambda: self.handle.progress() != before)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SOON_S
        while not condition() and time.monotonic() < deadline and not self._ending.wait(_LOOK_EVERY_S):
            pass


class _Reached:
    """Whether epochs of a warm-up have been on all executors that are to be made ready.

    Left alone each epoch goes where the last one was, and that need not be where it is wanted.
    """

    def __init__(self, newcomers: frozenset[str], ending: threading.Event) -> None:
        self._waiting = newcomers
        self._ending = ending
        self._deadline = time.monotonic() + _READY_WITHIN_S
        self._last_epoch: int | None = None

    def __call__(self, warming: Handle) -> bool:
        if self._ending.is_set() or time.monotonic() > self._deadline:
            return True
        last = warming.progress()
        epoch = last.epoch if last else -1
        if self._last_epoch is None:
            self._waiting = (self._waiting & frozenset(executors())) - places(warming)
            forget_places(warming)
            if not self._waiting:
                self._last_epoch = epoch + 1  # which has begun there
        return self._last_epoch is not None and epoch >= self._last_epoch


def _join_session() -> None:
    """Let this thread, too, find the data sources of the session."""
    session = SparkSession.builder.getOrCreate()
    assert session._jvm is not None
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
