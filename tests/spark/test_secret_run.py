"""A supervised run sends a secret header, leaves its value nowhere, and its files to their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import penstock as ps
from penstock.control.driving import Request
from penstock.control.restarting import RestartPolicy
from penstock.control.supervisor import SupervisedRun
from penstock.spark.options import RunOptions
from penstock.testing.sinks import SCHEMA, rows
from tests.connect.receiver import receiving

pytestmark = pytest.mark.spark
VALUE = "hunter2-f00d-cafe"


@pytest.mark.timeout(400)  # a cold start of Spark
def test_a_secret_reaches_the_receiver_and_no_file_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIGNALS_TOKEN", VALUE)
    before = os.umask(0)
    try:
        with receiving() as receiver:
            topology = ps.Topology("signals")
            numbers = topology.source("numbers", ps.Generator(rows, schema=SCHEMA, rows=10))
            token = ps.Secret("SIGNALS_TOKEN", prefix="Bearer ")
            numbers.sink("out", ps.Http(receiver.url("in"), headers={"Authorization": token}))
            options = RunOptions(directory=tmp_path / "run", master="local[2]", until="finished")
            with SupervisedRun(Request(topology, tmp_path / "run", options, RestartPolicy())) as run:
                run.wait()
                print(run.console(), run.history())
            assert len(receiver.rows("in")) == 10
            assert {authorization for _, authorization in receiver.requests} == {f"Bearer {VALUE}"}
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert [path for path in files if VALUE.encode() in path.read_bytes()] == []
    out, err = capfd.readouterr()
    assert VALUE not in out + err
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    by_spark = ("checkpoint", "dead-letters")
    ours = [path for path in files if path.relative_to(tmp_path / "run").parts[0] not in by_spark]
    assert [path for path in ours if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
