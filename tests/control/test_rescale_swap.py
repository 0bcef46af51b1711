"""A rescale that dies at any step leaves the run as it was, or as it is to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.making_runs import make_run

import penstock as ps
from penstock.control.linking import link_tree
from penstock.control.rescale_swap import declare_ready, finish_rescale, workplace
from penstock.control.run_directory import RunDirectory


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


@pytest.mark.parametrize("died_after", range(4))
def test_once_it_is_ready_it_is_finished(tmp_path: Path, died_after: int) -> None:
    run = prepare(tmp_path)
    declare_ready(run, hops=1, partitions=5)
    steps = [
        lambda: run.checkpoint.rename(workplace(run) / "before"),
        lambda: (workplace(run) / "checkpoint").rename(run.checkpoint),
        lambda: run.write_fabric(hops=1, partitions=5),
    ]
    for step in steps[:died_after]:
        step()
    for _ in range(2):
        finish_rescale(run)
        assert is_new(run)
