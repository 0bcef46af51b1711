"""Where schedules run: Spark in this process, kept warm from one schedule to the next."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import BadChange
from penstock.spark.options import RunOptions, Until
from penstock.spark.runner import Handle, start
from penstock.topology.stream import Topology

MASTER = "local[2,2]"
BLOCKS = Path(tempfile.gettempdir(), f"penstock-chaos-blocks-{os.getpid()}")
"""Where the JVM of this process keeps its blocks, so that a fault finds the files of a shuffle."""
SETTINGS = {
    "spark.local.dir": str(BLOCKS),
    "spark.sql.streaming.minBatchesToRetain": "1000",
    # State stores are maintained and make snapshots within the few epochs of a schedule.
    "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
}
"""Settings of Spark for all schedules."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, and with which options."""

    topology: Topology
    directory: Path
    until: Until
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RunOptions that the check asks for."""

    def run_options(self, master: str, settings: Mapping[str, str] | None = None) -> RunOptions:
        """Return the options for a place with this master and its own settings of Spark."""
        spark = {**SETTINGS, **(settings or {}), **self.options.get("spark", {})}
        chosen = {name: value for name, value in spark.items() if value is not None}
        # A change may have died after it was made: what is started next is applied all the same.
        given = {"partitions": 2, "apply": True, **self.options, "spark": chosen}
        return RunOptions(directory=self.directory, master=master, until=self.until, **given)


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

    def start(self, job: Job) -> Running:
        """Begin a run, or go on with it."""


def changes_here_only(topology: Topology) -> BadChange:
    """Why a run in another process is not changed."""
    step = "let the scenario run in the warm session"
    return BadChange(topology=topology.name, reason="its runner is another process", next_step=step)


@dataclass(frozen=True, slots=True)
class Warm:
    """A session in this process. A task is tried twice: Spark mends one death, and two end the query."""

    master: str = MASTER

    def start(self, job: Job, *, take_over: bool = False) -> Running:
        """Begin a run, or go on with it."""
        options = job.run_options(self.master)
        return RunningHere(start(job.topology, replace(options, take_over=take_over)))


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
