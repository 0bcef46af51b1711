"""The state of a node is dropped once: also for the epoch that could not be finished with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.making_runs import make_run

import penstock as ps
from penstock.control.checkpoint import read_offset
from penstock.control.forgetting import forget_state
from penstock.control.run_directory import RunDirectory
from penstock.control.spark_files import fault_of
from penstock.errors import RunDirectoryMismatch, UnknownNode


def test_the_state_is_born_anew(tmp_path: Path) -> None:
    run = make_run(tmp_path, ps.Collect())
    forget_state(run, ["totals"])
    assert run.current() == 2
    assert run.load(2).born["totals"] == 2
    assert run.load(2).graph.same_as(run.load(1).graph)
    forget_state(run, ["totals"])
    assert run.load(run.current()).born["totals"] == 3


def test_an_unfinished_epoch_keeps_its_input_and_loses_the_state(tmp_path: Path) -> None:
    run = make_run(tmp_path, ps.Collect(), committed=2, planned=3)
    before = read_offset(run.checkpoint, 2)
    forget_state(run, ["totals"])
    assert read_offset(run.checkpoint, 2) == {**before, "version": 2}
    assert fault_of(run.checkpoint / "offsets" / "2") is None
    assert read_offset(run.checkpoint, 1)["version"] == 1  # what is done is done


@pytest.mark.parametrize("node", ["orders", "priced", "nobody"])
def test_a_node_without_state_is_refused(tmp_path: Path, node: str) -> None:
    run = make_run(tmp_path, ps.Collect())
    with pytest.raises(UnknownNode) as caught:
        forget_state(run, ["totals", node])
    assert caught.value.parameters["known"] == "totals"
    assert run.current() == 1


def test_there_must_be_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryMismatch):
        forget_state(RunDirectory(tmp_path), ["totals"])
