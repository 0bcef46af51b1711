"""A hop's worker and the state store that it asks; no JVM is needed for that."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.serializers import write_int

import penstock as ps
from penstock.control.run_directory import RunDirectory
from penstock.engine.counters import Counters
from penstock.engine.slice_run import SliceRun
from penstock.errors import StateUnreachable
from penstock.operators.boundary import Boundary
from penstock.plan.passes import plan
from penstock.spark.hop import SparkShelf
from penstock.spark.tasks import failures_recorded
from tests.spark.topologies import totals_topology


class HungUp:
    """A state variable of Spark whose store has closed the connection, as it does when a task is ended."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        there.close()
        self._file = here.makefile("rwb", 65_536)
        here.close()

    def getValue(self, key: Any) -> Any:
        write_int(0, self._file)
        self._file.flush()

    def updateValue(self, key: Any, value: Any) -> None:
        self.getValue(key)


def test_a_task_that_spark_has_ended_is_no_failure_of_its_operator(tmp_path: Path) -> None:
    """The failure that ended it was recorded by another task, and must stay the one that is told."""
    directory = RunDirectory(tmp_path)
    directory.open("totals")
    program = plan(totals_topology(ps.Collect(), rows=10))
    handle: Any = SimpleNamespace(getMapState=lambda *_: HungUp())
    run = SliceRun(program, program.hosted["totals"], 0, Boundary(3, directory.failures, ""), Counters())
    with pytest.raises(StateUnreachable) as caught, failures_recorded(directory):
        run.run([], 0, SparkShelf(handle), None)
    assert "Broken pipe" in caught.value.parameters["error"]
    assert directory.take_failure() is None
