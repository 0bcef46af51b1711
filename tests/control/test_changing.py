"""Changes of one run by several people: each names the version that it was planned on, and one wins."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.control.making_runs import make_run
from tests.spark.topologies import totals_topology

import penstock as ps
from penstock.control.changes import ChangePlan
from penstock.control.changing import change_version
from penstock.control.forgetting import forget_state
from penstock.control.run_directory import RunDirectory
from penstock.errors import ChangedMeanwhile
from penstock.plan import plan
from penstock.plan.program import Program
from penstock.testing.chaos.dying import dying


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", ps.Collect())


def with_factor(factor: float) -> Program:
    return plan(totals_topology(ps.Collect(), rows=100, factor=factor))


def change(run: RunDirectory, factor: float, *, planned_on: int = 1) -> ChangePlan:
    return change_version(run, with_factor(factor), planned_on=planned_on, hops=1)


def test_a_change_becomes_the_current_version(run: RunDirectory) -> None:
    made = change(run, 2.0)
    assert (made.version, run.current()) == (2, 2)
    assert run.load(2).graph.same_as(with_factor(2.0).graph)
    origin = run.origin()
    assert origin is not None
    assert origin.made_by.startswith("a handle in process ")
    assert origin.apps == ()


def test_a_change_that_was_planned_on_an_older_version_is_refused(run: RunDirectory) -> None:
    change(run, 2.0)
    with pytest.raises(ChangedMeanwhile) as caught:
        change(run, 3.0)
    assert caught.value.condition == "CHANGED_MEANWHILE"
    assert "planned on version 1" in caught.value.parameters["what"]
    assert "version 2 now" in caught.value.parameters["what"]
    assert run.load(run.current()).graph.same_as(with_factor(2.0).graph)
    assert change(run, 3.0, planned_on=2).version == 3


def test_of_people_who_change_at_once_exactly_one_wins(run: RunDirectory) -> None:
    for planned_on in range(1, 6):
        ready, wins = threading.Barrier(4), []

        def attempt(
            factor: int, ready: threading.Barrier = ready, wins: list[int] = wins, on: int = planned_on
        ) -> None:
            ready.wait()
            try:
                change(run, on * 10.0 + factor, planned_on=on)
            except ChangedMeanwhile:
                return
            wins.append(factor)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(attempt, range(4)))
        assert len(wins) == 1
        assert run.current() == planned_on + 1
        assert run.load(run.current()).graph.same_as(with_factor(planned_on * 10.0 + wins[0]).graph)


_CHANGER = """
import sys
from pathlib import Path
from tests.control.test_changing import change
from penstock.control.run_directory import RunDirectory
from penstock.errors import ChangedMeanwhile
print("ready", flush=True)
sys.stdin.readline()
try:
    print(change(RunDirectory(Path(sys.argv[1])), float(sys.argv[2])).version)
except ChangedMeanwhile as error:
    print(error.condition)
"""


@pytest.mark.long
def test_of_processes_that_change_at_once_exactly_one_wins(run: RunDirectory) -> None:
    command = [sys.executable, "-c", _CHANGER, str(run.path)]
    changers = [
        subprocess.Popen(
            [*command, str(factor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_root()
        )
        for factor in (2.0, 3.0, 4.0)
    ]
    for changer in changers:
        assert changer.stdout is not None
        assert changer.stdout.readline() == "ready\n"
    for changer in changers:
        assert changer.stdin is not None
        changer.stdin.write("go\n")
        changer.stdin.flush()
    said = sorted(changer.communicate(timeout=60)[0].strip() for changer in changers)
    assert said == ["2", "CHANGED_MEANWHILE", "CHANGED_MEANWHILE"]
    assert run.versions() == [1, 2]


def _root() -> Path:
    return Path(__file__).parents[2]


def died_in(run: RunDirectory, work: Callable[[], object], *, at_write: int) -> bool:
    """Do work that dies at a write; whether it got to its end before."""
    is_done = []
    with dying(run.path, at_write=at_write):
        work()
        is_done.append(True)
    return bool(is_done)


def test_a_change_that_dies_anywhere_is_made_or_not_made(tmp_path: Path) -> None:
    """A version that was left half made is ignored, and the next change takes another number."""
    died = 0
    for at_write in range(40):
        run = make_run(tmp_path / str(at_write), ps.Collect())
        if died_in(run, lambda run=run: change(run, 2.0), at_write=at_write):  # type: ignore[misc]
            break
        died += 1
        current, taken = run.current(), run.versions()
        assert current in (1, 2)
        expected = with_factor(2.0 if current == 2 else 1.0)
        assert run.load(current).graph.same_as(expected.graph)
        again = change(run, 3.0, planned_on=current)
        assert again.version == run.current() > current
        assert again.version not in taken, "an offset log may name that number"
        assert run.load(run.current()).graph.same_as(with_factor(3.0).graph)
    assert died > 3


def test_a_change_waits_for_one_that_is_being_made(run: RunDirectory) -> None:
    with ThreadPoolExecutor(1) as pool:
        with run.changing():
            waiting = pool.submit(change, run, 2.0)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.2)
            assert run.current() == 1
        assert waiting.result(timeout=30).version == 2


def test_a_change_that_hangs_is_reported_with_its_process(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.control.run_directory._CHANGE_PATIENCE_S", 0.05)
    with run.changing(), pytest.raises(ChangedMeanwhile) as caught:
        change(run, 2.0)
    assert f"process {os.getpid()} is making a change" in caught.value.parameters["what"]


def test_dropping_state_keeps_who_made_the_version(run: RunDirectory) -> None:
    change(run, 2.0)
    origin = run.origin()
    forget_state(run, ["totals"])
    assert run.current() == 3
    assert run.origin() == origin
