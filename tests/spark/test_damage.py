"""Which file is behind a failure; needs no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoints import create
from penstock.spark.damage import damage_in
from tests.control.making_runs import make_run

ABOUT_STATE = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state."


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = make_run(tmp_path, ps.Collect())
    (made.checkpoint / "state/0/0/.4.changelog.1b.TID9.tmp").touch()  # what a task that failed leaves
    return made


def test_a_whole_state_is_not_blamed(run: RunDirectory) -> None:
    assert damage_in(ABOUT_STATE, run) is None


@pytest.mark.parametrize("name", ["0/0/2.changelog", "0/0/1.zip", "0/0/SSTs/000008-a.sst"])
def test_the_damaged_file_is_named_with_the_way_back(run: RunDirectory, name: str) -> None:
    made = create(run.path)
    path = run.checkpoint / "state" / name
    path.write_bytes(path.read_bytes()[:-1])
    found = damage_in(ABOUT_STATE, run)
    assert found is not None
    assert found.parameters["path"] == path
    assert str(made.path) in found.parameters["next_step"]


def test_other_failures_are_not_looked_into(run: RunDirectory) -> None:
    (run.checkpoint / "state/0/0/1.zip").write_bytes(b"")
    assert damage_in("the worker died", run) is None
