"""Holding a run between two epochs: several requesters at once, none of which ends the hold of another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.making_runs import make_run

import penstock as ps
from penstock.control.holding import Standstill, hold, honour_hold
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoint_files import faults
from penstock.control.savepoints import create, savepoints_of

NAMES = st.sampled_from("abcdef")
MOMENTS = st.lists(st.dictionaries(NAMES, st.floats(0.5, 9.0), max_size=6), min_size=1, max_size=40)
"""At each moment, one second after the other, the requests that are there, with their limits."""


@given(MOMENTS)
def test_a_hold_ends_when_it_is_withdrawn_or_its_time_is_over_and_never_before(
    moments: list[dict[str, float]],
) -> None:
    state, until = Standstill(), dict[str, float]()
    for now, wanted in enumerate(moments):
        state, new, late = state.step(wanted, float(now))
        for name in new:
            assert name not in until, "a hold is acknowledged once"
            until[name] = now + wanted[name]
        for name in [name for name in until if name not in wanted]:
            del until[name]
        assert late == {name for name, end in until.items() if end <= now and name not in new}
        for name in late:
            del until[name]
        assert state.deadlines.keys() == until.keys()
        if state.is_over:
            return


@given(st.lists(st.dictionaries(NAMES, st.just(2.0), min_size=1), min_size=20, max_size=20))
def test_requesters_that_keep_coming_do_not_hold_a_run_for_ever(moments: list[dict[str, float]]) -> None:
    state = Standstill()
    for now, wanted in enumerate(moments):
        state, _, late = state.step(wanted, float(now))
        moments[now + 1 :] = [
            {k: v for k, v in later.items() if k not in late} for later in moments[now + 1 :]
        ]
        if state.is_over:
            assert now <= 4, "the first limit, and that of the last one to join before it"
            return
    raise AssertionError("the run was never let go")


def test_requests_that_come_together_are_held_together() -> None:
    state, new, _ = Standstill().step({"a": 9.0, "b": 9.0}, 0.0)
    assert new == {"a", "b"}
    state, new, _ = state.step({"b": 9.0, "c": 9.0}, 1.0)
    assert new == {"c"}
    assert not state.is_over
    state, new, _ = state.step({"c": 9.0}, 2.0)
    assert not state.is_over
    assert state.step({}, 3.0)[0].is_over


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", ps.Collect())


@contextmanager
def running(run: RunDirectory) -> Iterator[list[int]]:
    """Somebody holds the lock and plans epoch after epoch, as Spark does; counted in the list."""
    ended, term, planned = threading.Event(), run.begin_term(), [0]

    def plan_epochs() -> None:
        while not ended.wait(0.001):
            honour_hold(run, term)
            planned[0] += 1

    with run.lock():
        thread = threading.Thread(target=plan_epochs)
        thread.start()
        try:
            yield planned
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("requesters", [2, 8])
def test_no_epoch_is_planned_while_anybody_holds_the_run(run: RunDirectory, requesters: int) -> None:
    with running(run) as planned:

        def hold_it(_: int) -> None:
            for _ in range(5):
                with hold(run, limit_s=30.0, give_up=lambda: False) as held:
                    assert held is not None
                    before = planned[0]
                    threading.Event().wait(0.005)
                    held.require()
                    assert planned[0] == before

        with ThreadPoolExecutor(requesters) as pool:
            for done in [pool.submit(hold_it, n) for n in range(requesters)]:
                done.result(timeout=60)
    assert not list((run.path / "holds").iterdir())


@pytest.mark.long
def test_savepoints_that_are_taken_at_once_are_all_whole(run: RunDirectory) -> None:
    with running(run), ThreadPoolExecutor(4) as pool:
        made = [done.result(60) for done in [pool.submit(create, run.path) for _ in range(4)]]
    assert len(savepoints_of(run.path)) == len({savepoint.path for savepoint in made}) == 4
    assert all(faults(savepoint) == {} for savepoint in made)


def test_a_requester_that_died_does_not_end_the_hold_of_another(run: RunDirectory) -> None:
    with running(run):
        dead = hold(run, limit_s=0.05, give_up=lambda: False)
        dead.__enter__()
        with hold(run, limit_s=30.0, give_up=lambda: False) as held:
            assert held is not None
            threading.Event().wait(0.2)
            held.require()
