"""`Handle.stop` has a time limit. A stand-in takes the place of Spark's query, so no JVM is needed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.control.adoption import Adoption
from penstock.control.changes import plan_change
from penstock.control.incidents import read_incidents
from penstock.control.run_directory import RunDirectory
from penstock.plan.passes import plan
from penstock.plan.program import Program
from penstock.spark.attendance import Attendance
from penstock.spark.options import RunOptions
from penstock.spark.runner import Handle
from penstock.testing.sinks import SCHEMA, rows
from penstock.topology.graph import Graph


class Query:
    """A query whose epoch takes so many looks; None: it never ends."""

    def __init__(self, looks: int | None) -> None:
        self.isActive = True
        self.stops = 0
        self._looks = looks

    @property
    def status(self) -> dict[str, Any]:
        if self._looks is not None:
            self._looks -= 1
        busy = self._looks is None or self._looks > 0
        message = "Processing new data" if busy else "Waiting for data to arrive"
        return {"isTriggerActive": busy, "isDataAvailable": busy, "message": message}

    def stop(self) -> None:
        self.stops += 1
        self.isActive = False


class Unstoppable(Query):
    """A query whose thread does not end: Spark gives up waiting for it."""

    def stop(self) -> None:
        self.stops += 1
        raise OSError("timed out")


def _handle(query: Query, folder: Path) -> tuple[Handle, RunDirectory]:
    topology = ps.Topology("t")
    topology.source("s", ps.Generator(rows, schema=SCHEMA, rows=1)).sink("out", ps.Console())
    directory = RunDirectory(folder / "run")
    directory.open("t")
    change = plan_change(Program(Graph("t"), {}, {}), plan(topology), version=1, hops=1)
    lock = ExitStack()
    lock.enter_context(directory.lock())
    term = directory.begin_term()
    fabric = {"hops": 1, "partitions": 1, "tasks": 1}
    adoption, attendance = Adoption(change), Attendance(directory)
    handle = Handle(directory, term, RunOptions(), adoption, fabric, query, lock, attendance)  # type: ignore[arg-type]
    return handle, directory


def test_an_epoch_that_ends_in_time_is_finished(tmp_path: Path) -> None:
    query = Query(looks=4)
    handle, directory = _handle(query, tmp_path)
    assert handle.stop(timeout_s=60)
    assert query.stops == 1
    assert read_incidents(directory.incidents) == []


@pytest.mark.parametrize("kind", [Query, Unstoppable])
def test_an_epoch_that_takes_longer_is_ended_and_reported_once(tmp_path: Path, kind: type[Query]) -> None:
    query = kind(looks=None)
    handle, directory = _handle(query, tmp_path)
    with handle:
        assert not handle.stop(timeout_s=0.1)
    assert query.stops == 1
    (incident,) = read_incidents(directory.incidents)
    assert incident.epoch == 0
    assert "not finished within 0.1 s" in incident.what
    directory.lock().close()  # another runner may have the directory
