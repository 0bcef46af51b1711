"""The intake next to the driver, asked as Spark asks it; no JVM is needed for that."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import penstock as ps
from penstock.control.restarting import kind_of
from penstock.control.run_directory import RunDirectory
from penstock.errors import SourceUnavailable
from penstock.plan.passes import plan
from penstock.spark.intake import IntakeReader
from penstock.testing.chaos.faults import Fault, lay_out
from penstock.testing.chaos.watched import with_points


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": pl.int_range(first, first + count, eager=True)})


def plan_and_commit(reader: IntakeReader) -> None:
    """What Spark asks the driver's side of a source in an epoch."""
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.partitions(start, end)
    reader.commit(end)


@pytest.mark.parametrize("point", ["planning", "after-offsets", "after-commit"])
def test_a_source_whose_place_fails_is_unavailable_and_waited_for(tmp_path: Path, point: str) -> None:
    """Also a source of the user's own, which knows nothing of Penstock's errors."""
    top = ps.Topology("numbers")
    top.source("input", ps.Generator(numbers, schema={"n": int}, rows=10)).sink("out", ps.Collect())
    lay_out(tmp_path / "faults", [Fault(point, 1, "fail", 60.0)])
    directory = RunDirectory(tmp_path / "run")
    directory.open("numbers")
    term = directory.begin_term()
    directory.store(1, plan(with_points(top, tmp_path / "faults")))
    directory.make_current(1)
    reader = IntakeReader(str(directory.path), "run", term=term, tasks=2, reads_ahead=False)
    with pytest.raises(SourceUnavailable) as caught:
        plan_and_commit(reader)
    assert caught.value.parameters["source"] == "input"
    assert "Input/output error" in caught.value.parameters["what"]
    told = directory.take_failure()
    assert told is not None
    assert kind_of(told) == "away"
