"""Whether a savepoint that was taken in the middle of trouble leads on to the same rows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.control.restoring import restore
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoint_files import Savepoint, faults
from penstock.plan.passes import plan
from penstock.spark.options import RunOptions
from penstock.spark.rescaling import rescaled
from penstock.testing.chaos.kept_log import KeptLog
from penstock.testing.chaos.oracle import LoggedRun, Rows, compare_rows, hops_of, replay
from penstock.testing.chaos.places import MASTER, Warm
from penstock.topology.stream import Topology

if TYPE_CHECKING:
    from penstock.testing.chaos.trial import Trial


def continues_wrongly(trial: Trial, savepoint: Savepoint) -> str:
    """What is amiss with a run that is restored with other partitions and goes on; nothing if it is right."""
    if damaged := faults(savepoint):
        return f"the savepoint is damaged: {damaged}"
    folder = trial.data.with_name("restored")
    topology = _with_the_same_input(trial, _empty(folder / "data"))
    options = RunOptions(master=MASTER, partitions=trial.chance.choice((1, 3, 4)))
    run = restore(savepoint, folder / "run", prepare=lambda fresh: rescaled(fresh, options))
    # Its files are elsewhere: they are the same all the same.
    continued = {"sources": dict.fromkeys(plan(topology).sources, "continue")}
    options_there = {**trial.job.options, **continued}
    job = replace(trial.job, topology=topology, directory=run.path, options=options_there)
    running = Warm().start(job)
    try:
        while not running.poll(0.2):
            pass
    finally:
        running.end()
    expected = _rows_after(trial, savepoint, run)
    differences = compare_rows(topology, run, expected)
    shutil.rmtree(folder)
    return f"the restored run differs: {differences}" if any(differences.values()) else ""


def _with_the_same_input(trial: Trial, folder: Path) -> Topology:
    """The topology in another place, as on another machine: files are copies."""
    check = trial.schedule.check
    topology = check.build(folder)
    for part in range(1, trial.fed + 1):
        assert check.feed is not None
        check.feed(folder, part)
    return topology


def _rows_after(trial: Trial, savepoint: Savepoint, run: RunDirectory) -> Rows:
    """What the reference engine gives after the epoch of the savepoint, with the restored run's epochs."""
    first = min(trial.versions)
    reference = LoggedRun(trial.versions[first], version=first, hops=hops_of(trial.directory))
    replay(reference, trial.versions, trial.log.offsets(), last=savepoint.manifest.epoch)
    reference.outputs.clear()
    replay(reference, trial.versions, KeptLog(run).offsets(), first=savepoint.manifest.epoch + 1)
    reference.finish()
    return reference.result()


def _empty(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
