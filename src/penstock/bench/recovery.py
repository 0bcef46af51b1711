"""How long a run is away after its executor or its driver was killed, and how soon it has caught up.

100,000 events/s arrive all the while. A fault comes right after the commit of an epoch, so that the next one
to be committed has all its work before it.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil

import penstock as ps
from penstock.bench.harness import Settings
from penstock.bench.timeline import write_timeline
from penstock.bench.workload import SCHEMA, CountAndSum, events
from penstock.control.driving import Request
from penstock.control.progress import Progress
from penstock.control.restarting import RestartPolicy
from penstock.control.supervisor import SupervisedRun
from penstock.errors import InternalError
from penstock.spark.options import RunOptions
from penstock.testing.chaos.cluster import StandaloneCluster
from penstock.testing.chaos.processes import strike

RATE = 100_000
EXECUTOR_KILLS = 5
DRIVER_KILLS = 3
STEADY_EPOCHS = 8
"""Epochs before the first fault and between two: the run must have caught up, and be whole again.

It is whole when the executor that was killed is replaced and the new one has served slices, or when there is
a spare driver again: this is a bench of single faults, and not of a second one while the first is mended.
"""
_WAIT_S = 240.0
IMAGE = Path("out/recovery.svg")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What one fault cost."""

    outage_s: float
    catch_up_s: float
    mending_s: float
    """The longest epoch between the first that was committed and the next fault: a replacement joins."""


def run(settings: Settings) -> dict[str, float]:
    """Kill executors of a cluster, then drivers that a supervisor replaces."""
    with StandaloneCluster(workers=2) as cluster:
        options = RunOptions(
            directory=settings.directory / "on-cluster", master=cluster.url, spark=cluster.settings()
        )
        executor_log, executor_faults = _watch(
            _request(settings, options),
            EXECUTOR_KILLS,
            kill=lambda run: _kill_executor(cluster),
            is_whole=lambda run: cluster.is_whole(),
        )
    options = RunOptions(directory=settings.directory / "supervised")
    driver_log, driver_faults = _watch(
        _request(settings, options, standby=True), DRIVER_KILLS, kill=_kill_driver, is_whole=_has_spare
    )
    executors = recoveries(executor_log, executor_faults)
    drivers = recoveries(driver_log, driver_faults)
    image = write_timeline(
        IMAGE,
        {"executor killed": (executor_log, executor_faults), "driver killed": (driver_log, driver_faults)},
    )
    print(f"throughput over time: {image}", file=sys.stderr)
    return {
        "executor_median_s": statistics.median(r.outage_s for r in executors),
        "executor_worst_s": max(r.outage_s for r in executors),
        "executor_joining_worst_s": max(r.mending_s for r in executors),
        "driver_median_s": statistics.median(r.outage_s for r in drivers),
        "driver_worst_s": max(r.outage_s for r in drivers),
        "catch_up_ratio": statistics.median(r.catch_up_s / r.outage_s for r in (*executors, *drivers)),
    }


def recoveries(log: Sequence[Progress], faults_ns: Sequence[int]) -> list[Recovery]:
    """What each fault cost, from the log of committed epochs.

    An epoch takes all events that are due, so the run has caught up with the first one that is not half as
    large again as those before the first fault. The one that ends the outage tells nothing: it may have been
    planned before the fault, and what arrived since is with the next.
    """
    usual = 1.5 * statistics.median(progress.events for progress in log if progress.at_ns < faults_ns[0])
    found = []
    for fault, until in zip(faults_ns, [*faults_ns[1:], sys.maxsize], strict=True):
        after = [p for p in log if fault < p.at_ns < until]
        caught_up = next((p.at_ns for p in after[1:] if p.events <= usual), None)
        if caught_up is None:
            raise InternalError(what="the run did not catch up before the next fault")
        longest = max((later.at_ns - p.at_ns for p, later in pairwise(after)), default=0)
        outage, catch_up = after[0].at_ns - fault, caught_up - after[0].at_ns
        found.append(Recovery(outage / 1e9, catch_up / 1e9, longest / 1e9))
    return found


def _request(settings: Settings, options: RunOptions, *, standby: bool = False) -> Request:
    assert options.directory is not None
    topology = _topology(settings.directory / f"out-{options.directory.name}")
    return Request(topology, options.directory, options, RestartPolicy(), standby=standby)


def _watch(
    request: Request,
    kills: int,
    *,
    kill: Callable[[SupervisedRun], None],
    is_whole: Callable[[SupervisedRun], bool],
) -> tuple[list[Progress], list[int]]:
    """Run, kill now and then, and give the log and the times of the faults."""
    faults: list[int] = []
    with SupervisedRun(request) as supervised:
        for _ in range(kills):
            _wait_for_epochs(supervised, 1)  # only then it is known what the last fault has left
            _wait(supervised, partial(is_whole, supervised))
            _wait_for_epochs(supervised, STEADY_EPOCHS)
            faults.append(time.time_ns())
            kill(supervised)
        _wait_for_epochs(supervised, STEADY_EPOCHS)
        supervised.stop()
        supervised.poll(_WAIT_S)
        return supervised.history(), faults


def _wait_for_epochs(supervised: SupervisedRun, count: int) -> None:
    first = _epoch(supervised)
    _wait(supervised, lambda: _epoch(supervised) >= first + count)


def _wait(supervised: SupervisedRun, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if supervised.poll(0.02):
            raise InternalError(what="the run ended before the bench did")
        if time.monotonic() > deadline:
            raise InternalError(what=f"the run did not come back within {_WAIT_S:.0f} s")


def _has_spare(supervised: SupervisedRun) -> bool:
    return supervised.spare is not None and supervised.spare.is_ready


def _epoch(supervised: SupervisedRun) -> int:
    last = supervised.progress()
    return last.epoch if last else -1


def _topology(out: Path) -> ps.Topology:
    top = ps.Topology("recovery")
    source = ps.Generator(lambda first, count: events(first, count, 100_000), schema=SCHEMA, rate=RATE)
    totals = top.source("events", source).key_by("key").process("totals", CountAndSum(), parallelism=4)
    totals.sink("table", ps.Parquet(out))
    return top


def _kill_executor(cluster: StandaloneCluster) -> None:
    victims = [psutil.Process(pid) for pid in cluster.executors()]
    if strike(victims, signal.SIGKILL, random.Random()) is None:
        raise InternalError(what="the cluster has no executor")


def _kill_driver(supervised: SupervisedRun) -> None:
    assert supervised.driver is not None
    os.kill(supervised.driver.pid, signal.SIGKILL)
