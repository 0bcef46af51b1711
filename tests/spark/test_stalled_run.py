"""A run whose function waits for ever is reported while it waits, and can be stopped."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.control.driving import Request
from penstock.control.incidents import read_incidents
from penstock.control.restarting import RestartPolicy
from penstock.control.supervisor import SupervisedRun
from penstock.spark.options import RunOptions
from penstock.testing.sinks import SCHEMA, rows

pytestmark = pytest.mark.spark


def waits_for_ever(batch: pl.DataFrame) -> pl.DataFrame:
    lock = threading.Lock()
    lock.acquire()
    if batch.height:
        lock.acquire()
    return batch


@pytest.mark.timeout(400)  # a cold start of Spark
def test_a_function_that_waits_for_ever_is_named_in_an_incident(tmp_path: Path) -> None:
    topology = ps.Topology("waiting")
    numbers = topology.source("numbers", ps.Generator(rows, schema=SCHEMA, rows=10))
    numbers.map("stuck", waits_for_ever, returns=SCHEMA).sink("out", ps.Collect())
    options = RunOptions(
        directory=tmp_path / "run", master="local[2]", stall_after=dt.timedelta(seconds=20), until="finished"
    )
    log = tmp_path / "run" / "incidents.jsonl"
    with SupervisedRun(Request(topology, tmp_path / "run", options, RestartPolicy())) as run:
        while not (incidents := read_incidents(log)):
            assert not run.poll(0.2)
        assert run.driver is not None
        assert run.driver.code() is None, "the run is not ended"
    assert [incident.kind for incident in incidents] == ["handled"]
    assert "epoch 0 has made no progress" in incidents[0].what
    assert "in waits_for_ever" in incidents[0].what
