"""Where schedules run: Spark in this process, kept warm from one schedule to the next."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from penstock.control.source_changes import Decision
from penstock.errors import BadChange
from penstock.spark.options import RunOptions, Until
from penstock.spark.runner import Handle, start
from penstock.topology.stream import Topology

MASTER = "local[2,2]"
KEEP_LOGS = {"spark.sql.streaming.minBatchesToRetain": "1000"}
"""The reference engine repeats a run by its offset log, so all of it must be there."""


class Running(Protocol):
    """A run that was started somewhere."""

    @property
    def pid(self) -> int:
        """The process below which Spark's are."""

    def poll(self, timeout_s: float) -> bool:
        """Wait a while; True when the run has ended. Raises what failed it."""

    def change(self, topology: Topology) -> int:
        """Let the next epoch run another version; gives its number."""

    def rest(self) -> None:
        """End at an epoch boundary."""

    def end_abruptly(self) -> None:
        """Leave the run as the death of its driver would."""

    def end(self) -> None:
        """End what is left of it."""


class Place(Protocol):
    """Somewhere to run topologies."""

    def start(self, topology: Topology, directory: Path, until: Until) -> Running:
        """Begin a run, or go on with it."""


def run_options(
    directory: Path, master: str, until: Until, settings: Mapping[str, str] | None = None
) -> RunOptions:
    """How schedules run."""
    spark = {**KEEP_LOGS, **(settings or {})}
    # A change may have died after it was made: what is started next is applied all the same.
    return RunOptions(directory=directory, master=master, partitions=2, until=until, spark=spark, apply=True)


def changes_here_only(topology: Topology) -> BadChange:
    """Why a run in another process is not changed."""
    step = "let the scenario run in the warm session"
    return BadChange(topology=topology.name, reason="its runner is another process", next_step=step)


@dataclass(frozen=True, slots=True)
class Warm:
    """A session in this process. A task is tried twice: Spark mends one death, and two end the query."""

    master: str = MASTER

    def start(
        self,
        topology: Topology,
        directory: Path,
        until: Until,
        *,
        take_over: bool = False,
        sources: Mapping[str, Decision] | None = None,
    ) -> Running:
        """Begin a run, or go on with it."""
        options = run_options(directory, self.master, until)
        return RunningHere(start(topology, replace(options, take_over=take_over, sources=sources or {})))


class RunningHere:
    """A run in the session of this process."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def pid(self) -> int:
        return os.getpid()

    def poll(self, timeout_s: float) -> bool:
        return self._handle.poll(timeout_s)

    def change(self, topology: Topology) -> int:
        return self._handle.change(topology).version

    def rest(self) -> None:
        self._handle.stop()

    def end_abruptly(self) -> None:
        self._handle.query.stop()

    def end(self) -> None:
        self._handle.query.stop()
        self._handle.stop()
