"""What a start makes of the topology that it is given: the run directory is the truth, not the script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.making_runs import make_run
from tests.spark.topologies import totals_topology

import penstock as ps
from penstock.control.adoption import Adoption, adopt_at_rest, this_app
from penstock.control.changing import change_version
from penstock.control.driving import Request
from penstock.control.restarting import RestartPolicy
from penstock.control.run_directory import RunDirectory
from penstock.control.supervisor import SupervisedRun
from penstock.errors import BadChange, RunDirectoryInUse
from penstock.plan import plan
from penstock.plan.program import Program
from penstock.spark.options import RunOptions


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def program(factor: float, **options: Any) -> Program:
    return plan(totals_topology(ps.Collect(), rows=100, factor=factor, **options))


def started(run: RunDirectory, factor: float, *, app: str = "mine", **options: Any) -> Adoption:
    """Start an app with this topology, and end it again."""
    return adopt_at_rest(run, program(factor), RunOptions(app=app, **options))


def changed(run: RunDirectory, factor: float) -> None:
    """Change the run from elsewhere."""
    change_version(run, program(factor), planned_on=run.current(), hops=1)


def runs(run: RunDirectory, factor: float) -> bool:
    return run.load(run.current()).graph.same_as(program(factor).graph)


def test_the_first_start_makes_the_first_version(run: RunDirectory) -> None:
    adoption = started(run, 1.0)
    assert (adoption.plan.version, run.current()) == (1, 1)
    assert adoption.report() == ""


def test_an_app_that_was_edited_is_applied_with_the_plan(run: RunDirectory) -> None:
    started(run, 1.0)
    adoption = started(run, 2.0)
    assert runs(run, 2.0)
    assert adoption.proposed is None
    assert adoption.report().startswith("the topology has changed; version 2: ")


def test_an_app_that_was_not_edited_changes_nothing(run: RunDirectory) -> None:
    started(run, 1.0)
    assert started(run, 1.0).report() == ""
    assert run.versions() == [1]


def test_a_change_from_elsewhere_is_not_reverted_but_the_plan_is_shown(run: RunDirectory) -> None:
    started(run, 1.0)
    changed(run, 2.0)
    for _ in range(2):
        adoption = started(run, 1.0)
        assert runs(run, 2.0)
        assert run.versions() == [1, 2]
        assert adoption.plan.version == 2
        assert adoption.proposed is not None
        assert adoption.proposed.swapped == (("priced", "logic or parameters"),)
        report = adoption.report()
        assert "goes on with its version 2, made by a handle in process" in report
        assert "~ priced: logic or parameters" in report
        assert "--apply" in report


def test_a_change_from_elsewhere_is_reverted_if_that_is_asked_for(run: RunDirectory) -> None:
    started(run, 1.0)
    changed(run, 2.0)
    assert started(run, 1.0, apply=True).plan.version == 3
    assert runs(run, 1.0)
    assert started(run, 4.0).plan.version == 4  # it is the app's own version again


def test_another_app_reverts_nothing(run: RunDirectory) -> None:
    started(run, 1.0, app="mine")
    assert started(run, 2.0, app="theirs").proposed is not None
    assert runs(run, 1.0)
    started(run, 2.0, app="theirs", apply=True)
    assert started(run, 3.0, app="mine").origin is not None
    assert runs(run, 2.0)


def test_an_app_that_was_brought_in_line_with_a_change_can_be_edited_again(run: RunDirectory) -> None:
    started(run, 1.0)
    changed(run, 2.0)
    assert started(run, 2.0).report() == ""
    assert started(run, 3.0).proposed is None
    assert runs(run, 3.0)


def test_a_run_from_before_versions_had_an_origin_is_changed_by_its_app(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    assert run.origin() is None
    assert adopt_at_rest(run, program(2.0), RunOptions()).proposed is None
    assert runs(run, 2.0)


def test_what_forbids_a_change_leaves_the_version(run: RunDirectory) -> None:
    started(run, 1.0)
    other = plan(totals_topology(ps.Collect(), rows=100, factor=2.0).__class__("totals", _fewer_slices()))
    with pytest.raises(BadChange):
        adopt_at_rest(run, other, RunOptions(app="mine"))
    assert runs(run, 1.0)
    adopt_at_rest(run, other, RunOptions(app="mine", allow_state_loss=True))
    assert run.current() == 2


def _fewer_slices() -> Any:
    from dataclasses import replace

    from penstock.topology.graph import Graph

    graph = totals_topology(ps.Collect(), rows=100).graph
    nodes = [replace(node, parallelism=60) if node.name == "totals" else node for node in graph]
    return Graph.of(graph.name, nodes)


def test_a_run_that_is_in_use_is_not_changed_by_a_start(run: RunDirectory) -> None:
    started(run, 1.0)
    with run.lock(), pytest.raises(RunDirectoryInUse):
        started(run, 2.0)
    assert runs(run, 1.0)


def test_a_script_is_known_by_its_path() -> None:
    assert Path(this_app().removesuffix(" (interactive)")).is_absolute()


def test_a_restarted_driver_is_told_no_topology(run: RunDirectory, tmp_path: Path) -> None:
    """The supervisor proposes it once; what a driver reads has none, so it can revert nothing."""
    topology = totals_topology(ps.Collect(), rows=100)
    options = RunOptions(directory=run.path)
    supervised = SupervisedRun(Request(topology, run.path, options, RestartPolicy()))
    assert supervised.adopt() is not None
    changed(run, 2.0)
    assert supervised.adopt() is None
    assert runs(run, 2.0)
    supervised.request.write(tmp_path)
    assert Request.read(tmp_path).topology is None


def test_what_was_not_applied_is_said_in_the_runs_console(run: RunDirectory) -> None:
    started(run, 1.0)
    changed(run, 2.0)
    request = Request(totals_topology(ps.Collect(), rows=100), run.path, RunOptions(), RestartPolicy())
    supervised = SupervisedRun(request)
    supervised.adopt()
    assert supervised.console()[-1] == "to apply it, start again with --apply (apply=True)"
