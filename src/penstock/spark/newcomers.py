"""Executors that join a run: made ready beside it, then given their share of the slices.

Left to itself Spark keeps the slices where they are: after a failure the survivors do all the work for good.
And when one of them fails in turn, the executor that stood by begins with nothing loaded: the next epoch was
there after twelve seconds instead of one or two.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.errors import PenstockError
from penstock.spark.options import RunOptions, partitions_for
from penstock.spark.places import executors, forget_places, give_shares
from penstock.spark.runner import SPARK_IS_GONE, Handle
from penstock.spark.session import is_one_process
from penstock.spark.warm_up import warm_up

_ATTEMPTS = 5
"""So many epochs until state that shall move has moved: one that is under way may have opened it already."""
_LOOK_EVERY_S = 0.1


@dataclass
class Newcomers:
    """Watches which executors a run has. In local mode there is but the driver, and nothing to do."""

    handle: Handle
    options: RunOptions
    _known: frozenset[str] = frozenset()
    _welcome: threading.Thread | None = None
    _ending: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        """Welcome those that have come since the last look; one group at a time, and none of the first."""
        is_busy = self._welcome is not None and self._welcome.is_alive()
        if is_one_process(self.options.master) or is_busy or self.handle.progress() is None:
            return
        with suppress(*SPARK_IS_GONE):  # the run itself will tell
            now = frozenset(executors())
            if self._known and now - self._known:
                self._welcome = threading.Thread(target=self._make_room, name="newcomers", daemon=True)
                self._welcome.start()
            self._known = now

    def end(self) -> None:
        """Leave nothing running."""
        self._ending.set()
        if self._welcome is not None:
            self._welcome.join()

    def _make_room(self) -> None:
        try:
            _join_session()
            cores = SparkContext.getOrCreate().defaultParallelism
            options = replace(self.options, partitions=partitions_for(cores))
            warm_up(options, self.handle.directory / "warm-up", meanwhile=self._reach_all)
            for _ in range(_ATTEMPTS):
                if self._ending.is_set() or not give_shares(self.handle):
                    break
                self._wait_for_epoch()
        except (
            PenstockError,
            *SPARK_IS_GONE,
        ) as error:  # the run goes on as it was
            sys.stderr.write(f"a new executor was not made ready, and gets no slices: {error}\n")

    def _reach_all(self, warming: Handle) -> bool:
        """Let each epoch of the warm-up go to executors that are free, not to those that had the last."""
        forget_places(warming)
        return not self._ending.is_set()

    def _wait_for_epoch(self) -> None:
        before = self.handle.progress()
        while self.handle.progress() == before and not self._ending.wait(_LOOK_EVERY_S):
            pass


def _join_session() -> None:
    """Let this thread, too, find the data sources of the session."""
    session = SparkSession.builder.getOrCreate()
    assert session._jvm is not None
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
