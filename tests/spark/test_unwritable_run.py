"""A run directory that cannot be written ends a start with words, not with the system's error."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.control.run_directory import RunDirectory
from penstock.errors import StreamFailed
from penstock.spark.options import RunOptions
from penstock.spark.runner import start
from tests.spark.topologies import totals_topology


def test_a_start_that_cannot_write_its_token_says_where_and_why(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.open("totals")
    (run.path / "terms").write_text("")  # a file in the folder's place: no token can be written
    with pytest.raises(StreamFailed) as failed:
        start(totals_topology(ps.Collect(), rows=10), RunOptions(directory=run.path))
    assert "cannot be written" in failed.value.parameters["reason"]
