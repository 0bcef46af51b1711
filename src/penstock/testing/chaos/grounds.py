"""Places that schedules need, each made when first asked for and used by many schedules."""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock.control.driving import Request
from penstock.control.restarting import RestartPolicy
from penstock.control.supervisor import SupervisedRun
from penstock.spark.options import RunOptions
from penstock.testing.chaos.cluster import StandaloneCluster
from penstock.testing.chaos.disk import SmallDisk
from penstock.testing.chaos.places import BLOCKS, MASTER, Job, Place, Running, Warm, changes_here_only
from penstock.testing.chaos.runner_process import RunnerProcess
from penstock.testing.chaos.schedules import Scenario
from penstock.topology.stream import Topology

_NOBODY = 1 << 30
"""A process id that no process has."""
_ON_SMALL_DISK = ("disk", "supervised-disk")


class Grounds:
    """All places of a run of the harness."""

    def __init__(self) -> None:
        self._warm = Warm()
        self._second: Second | None = None
        self._cluster: OnCluster | None = None
        self._disk: SmallDisk | None = None
        self._places: dict[str, Place] = {
            "warm": self._warm,
            "disk": self._warm,
            "supervised": Supervised(),
            "supervised-disk": Supervised(),
        }

    def lacks(self, scenario: Scenario) -> str:
        """Why a scenario cannot run on this machine; nothing if it can."""
        return SmallDisk.lacking() if scenario.place in _ON_SMALL_DISK else ""

    def place_for(self, scenario: Scenario) -> Place:
        """Where its schedules start."""
        if scenario.place == "second":
            self._second = self._second or Second(self._warm)
            return self._second
        if scenario.place == "cluster":
            self._cluster = self._cluster or OnCluster()
            return self._cluster
        return self._places[scenario.place]

    def folder_for(self, scenario: Scenario) -> Path | None:
        """Where its files go; None: among the temporary ones."""
        if scenario.place not in _ON_SMALL_DISK:
            return None
        self._disk = self._disk or SmallDisk()
        return self._disk.path

    def get_ready(self) -> None:
        """After a schedule: begin to replace what it has killed."""
        if self._second is not None:
            self._second.get_ready()

    def __enter__(self) -> Grounds:
        return self

    def __exit__(self, *args: object) -> None:
        for place in (self._second, self._cluster, self._disk):
            if place is not None:
                place.close()
        shutil.rmtree(BLOCKS, ignore_errors=True)


class Second:
    """Two runners: a schedule begins in another process and goes on here when that one is dead or refused."""

    def __init__(self, here: Warm) -> None:
        self._here = here
        self._runner = self._new_runner()

    def start(self, job: Job) -> Running:
        """In the other process if the run is new, otherwise here."""
        if (job.directory / "run.json").exists():
            return self._here.start(job)
        self.get_ready()
        self._runner.wait_until_warm()
        return self._runner.start(job.topology, job.run_options(self._here.master))

    def get_ready(self) -> None:
        """Replace a runner that was killed; the new one gets warm beside the schedules of other scenarios."""
        if not self._runner.is_alive:
            self._runner.close()
            self._runner = self._new_runner()

    def take_over(self, job: Job) -> Running:
        """Start here although the other one is not known to be dead."""
        return self._here.start(job, take_over=True)

    def close(self) -> None:
        self._runner.close()

    def _new_runner(self) -> RunnerProcess:
        return RunnerProcess(RunOptions(master=self._here.master))


class Supervised:
    """The product's own supervisor: it replaces a driver that dies."""

    def start(self, job: Job) -> Running:
        """In a driver process."""
        request = Request(job.topology, job.directory, job.run_options(MASTER), RestartPolicy())
        return RunningSupervised(SupervisedRun(request))


class RunningSupervised:
    """A run whose driver comes back by itself."""

    def __init__(self, run: SupervisedRun) -> None:
        self._run = run

    @property
    def pid(self) -> int:
        """Of the driver; between two drivers there is none to be hit."""
        return self._run.driver.pid if self._run.driver is not None else _NOBODY

    def poll(self, timeout_s: float) -> bool:
        return self._run.poll(timeout_s)

    def change(self, topology: Topology) -> int:
        raise changes_here_only(topology)

    def rest(self) -> None:
        self._run.stop()
        while not self._run.poll(1.0):
            pass

    def end_abruptly(self) -> None:
        self._run.close()

    def end(self) -> None:
        self._run.close()


class OnCluster:
    """A standalone cluster with two workers, and a runner whose executors are there."""

    def __init__(self) -> None:
        self.cluster = StandaloneCluster(workers=2)
        self._options = RunOptions(master=self.cluster.url, spark=self.cluster.settings())
        self._runner = RunnerProcess(self._options)

    def start(self, job: Job) -> Running:
        """On the cluster."""
        if not self._runner.is_alive:
            self._runner.close()
            self._runner = RunnerProcess(self._options)
        self._runner.wait_until_warm()
        options = job.run_options(self.cluster.url, self.cluster.settings())
        return self._runner.start(job.topology, options)

    def close(self) -> None:
        self._runner.close()
        self.cluster.close()
