"""One Spark session for all tests of this tier; every query is stopped and awaited after its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.connect.collect import read


class SparkRun:
    """Runs topologies on Spark in a directory of the test's own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def start(self, topology: ps.Topology, **options: Any) -> Any:
        defaults = {"directory": self.directory, "master": "local[2]", "until": "finished"}
        return ps.start(topology, **{**defaults, **options})

    def through(self, topology: ps.Topology, **options: Any) -> dict[str, pl.DataFrame]:
        """Run to the end and give what each Collect sink got."""
        with self.start(topology, **options) as handle:
            handle.wait()
        return self.collected(topology)

    def collected(self, topology: ps.Topology) -> dict[str, pl.DataFrame]:
        return {
            node.name: read(self.directory, node.name)
            for node in topology.graph
            if node.spec.kind == "sink" and isinstance(node.spec.sink, ps.Collect)
        }


@pytest.fixture
def spark_run(tmp_path: Path) -> SparkRun:
    return SparkRun(tmp_path / "run")


@pytest.fixture(scope="session", autouse=True)
def _session_ends() -> Iterator[None]:
    yield
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is not None:
        session.stop()


@pytest.fixture
def same_rows() -> Callable[[pl.DataFrame, pl.DataFrame], None]:
    """Asserts that two frames hold the same rows, whatever their order."""

    def check(got: pl.DataFrame, expected: pl.DataFrame) -> None:
        assert got.columns == expected.columns
        assert got.sort(got.columns).equals(expected.sort(got.columns))

    return check
