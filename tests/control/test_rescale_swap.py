"""A rescale that dies at any step leaves the run as it was, or as it is to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.making_runs import make_run

import penstock as ps
from penstock.control.linking import link_tree
from penstock.control.rescale_swap import declare_ready, finish_rescale, workplace
from penstock.control.run_directory import RunDirectory
from penstock.testing.chaos.dying import dying


def prepare(path: Path) -> RunDirectory:
    run = make_run(path, ps.Collect())
    link_tree(run.checkpoint, workplace(run) / "checkpoint")
    (workplace(run) / "checkpoint" / "new").touch()
    return run


def is_new(run: RunDirectory) -> bool:
    new = (run.checkpoint / "new").exists()
    assert (run.checkpoint / "metadata").exists()
    assert run.fabric() == {"hops": 1, "partitions": 5 if new else 2}
    assert not workplace(run).exists()
    return new


def test_before_it_is_ready_it_is_forgotten(tmp_path: Path) -> None:
    run = prepare(tmp_path)
    finish_rescale(run)
    assert not is_new(run)


WRITES = 40
"""More changes to files than finishing makes."""


@pytest.mark.parametrize("died_at", range(WRITES))
def test_once_it_is_ready_it_is_finished_whenever_the_process_dies(tmp_path: Path, died_at: int) -> None:
    run = prepare(tmp_path)
    declare_ready(run, hops=1, partitions=5)
    with dying(tmp_path, at_write=died_at):
        finish_rescale(run)
    for _ in range(2):
        finish_rescale(run)
        assert is_new(run)


def test_finishing_makes_fewer_changes_than_the_deaths_that_are_tried(tmp_path: Path) -> None:
    run, done = prepare(tmp_path), False
    declare_ready(run, hops=1, partitions=5)
    with dying(tmp_path, at_write=WRITES - 1):
        finish_rescale(run)
        done = True
    assert done


@pytest.mark.parametrize("died_at", range(0, WRITES, 3))
def test_a_death_while_it_is_forgotten_leaves_the_run_as_it_was(tmp_path: Path, died_at: int) -> None:
    run = prepare(tmp_path)
    with dying(tmp_path, at_write=died_at):
        finish_rescale(run)
    finish_rescale(run)
    assert not is_new(run)
