"""Time at a node follows the sources that lead to it, never goes back, and waits for no idle one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.operators.event_time_kit import at, epochs, out, rows, started

import penstock as ps
from penstock.connect.source import END_OF_TIME
from penstock.engine.punctuation import Punctuations, Standing
from penstock.errors import BadArgument
from penstock.plan.passes import plan
from penstock.plan.program import Program
from penstock.testing import Epoch, ReferenceRun

SECOND_NS = 1_000_000_000


def program(idle_b: str | None = "10s") -> Program:
    """Sources a and b; 'only-a' hears a, 'both' hears both."""
    top = ps.Topology("t")
    a, b = top.source("a", rows(), idle="10s"), top.source("b", rows(), idle=idle_b)
    a.restore_order("only-a").sink("x", ps.Collect())
    a.union("union", b).restore_order("both").sink("y", ps.Collect())
    return plan(top)


def after(
    before: Punctuations,
    a: int | None,
    b: int | None,
    *,
    moved: str = "ab",
    second: int = 0,
    idle_b: str | None = "10s",
) -> Punctuations:
    standings = {"a": Standing(a, "a" in moved), "b": Standing(b, "b" in moved)}
    return before.after(program(idle_b), standings, second * SECOND_NS)


def test_a_node_hears_only_of_the_sources_that_lead_to_it() -> None:
    assert after(Punctuations(), 70, 20).nodes == {"only-a": 70, "both": 20}


def test_a_source_that_promises_nothing_holds_up_the_nodes_that_it_leads_to() -> None:
    assert after(Punctuations(), 70, None).nodes == {"only-a": 70}


def test_an_idle_source_is_not_waited_for_until_it_gives_something() -> None:
    first = after(Punctuations(), 70, 20)
    waiting = after(first, 80, 20, moved="a", second=9)
    assert waiting.nodes["both"] == 20
    passed = after(waiting, 90, 20, moved="a", second=10)
    assert passed.nodes["both"] == 90
    again = after(passed, 100, 30, second=11)
    assert again.nodes["both"] == 90  # it never goes back: what b gives below 90 is late
    assert after(again, 110, 105, second=12).nodes["both"] == 105


def test_a_source_that_has_never_given_anything_becomes_idle_too() -> None:
    first = after(Punctuations(), 70, None, moved="a")
    assert after(first, 80, None, moved="a", second=10).nodes["both"] == 80


def test_if_all_are_idle_time_is_what_the_farthest_promised() -> None:
    first = after(Punctuations(), 70, 20)
    assert after(first, 70, 20, moved="", second=10).nodes["both"] == 70


def test_an_idle_source_is_not_taken_for_one_that_has_ended() -> None:
    first = after(Punctuations(), END_OF_TIME, 20)
    assert after(first, END_OF_TIME, 20, moved="", second=99).nodes["both"] == 20
    assert after(first, END_OF_TIME, END_OF_TIME).nodes["both"] == END_OF_TIME


def test_a_source_can_be_waited_for_however_long_it_takes() -> None:
    first = after(Punctuations(), 70, 20)
    assert after(first, 80, 20, moved="a", second=10**6, idle_b=None).nodes["both"] == 20


def test_a_strange_idle_time_is_refused() -> None:
    with pytest.raises(BadArgument) as error:
        ps.Topology("t").source("s", rows(), idle="soon")
    assert error.value.parameters["what"] == "idle"


def test_only_what_moved_is_told_and_a_new_node_is_told_at_once() -> None:
    before = Punctuations(nodes={"both": 20})
    assert Punctuations(nodes={"both": 20, "only-a": 70}).moved_since(before) == {"only-a": 70}


def test_an_offset_carries_them_whole() -> None:
    first = after(Punctuations(), 70, 20, second=3)
    assert Punctuations.from_json(first.to_json()) == first
    assert Punctuations.from_json({}) == Punctuations()


promises = st.none() | st.integers(0, 50)


@pytest.mark.long
@given(st.lists(st.tuples(promises, promises, st.sampled_from(["", "a", "b", "ab"]), st.integers(0, 15))))
def test_time_never_goes_back(story: list[tuple[int | None, int | None, str, int]]) -> None:
    top, now, times = program(), 0, Punctuations()
    for a, b, moved, seconds in story:
        now += seconds
        standings = {"a": Standing(a, "a" in moved), "b": Standing(b, "b" in moved)}
        following = times.after(top, standings, now * SECOND_NS)
        assert all(following.nodes[node] >= time for node, time in times.nodes.items())
        times = following


def lates(run: ReferenceRun, *nodes: str) -> list[int]:
    return [run.counters.nodes[node]["late"] for node in nodes]


def test_operators_count_late_events_whether_they_keep_them_or_not() -> None:
    events = rows((1, "a", 0), (12, "a", 0), (3, "a", 0), (3, "a", 0), (3, "b", 0))
    for late in ("counted", "kept"):
        run = started(
            lambda s, late=late: s.aggregate(
                "n", by="k", window=ps.tumbling("10s"), n=ps.count(), late=late, parallelism=2
            ),
            events,
        )
        epochs(run, 2, 3).drain()
        assert lates(run, "source0", "n") == [3, 3]


def test_a_late_row_of_either_side_of_a_join_is_counted() -> None:
    run = started(
        lambda a, b: a.join("j", b, on="k", within="1s"),
        rows((5, "a", 0), (1, "a", 1)),
        rows((5, "a", 0), (2, "a", 1)),
    )
    epochs(run, 1).drain()
    assert lates(run, "source0", "source1", "j") == [1, 1, 2]
    assert (out(run, "late"), out(run, "late-other")) == ([(at(1), "a", 1)], [(at(2), "a", 1)])


def test_a_slow_source_does_not_hold_up_what_it_does_not_lead_to() -> None:
    top = ps.Topology("t")
    fast = top.source("fast", rows((1, "a", 0), (99, "a", 0), (100, "a", 0)))
    slow = top.source("slow", rows((2, "b", 0), (2, "b", 0), (2, "b", 0)))
    for name, stream in (("of-fast", fast), ("of-slow", slow)):
        stream.aggregate(f"n-{name}", window=ps.tumbling("10s"), n=ps.count()).sink(name, ps.Collect())
    run = ReferenceRun(top)
    run.step(Epoch(2))
    assert run.result()["of-fast"].height == 1
    assert run.result()["of-slow"].height == 0


def test_a_folder_that_stays_empty_does_not_keep_windows_open(tmp_path: Path) -> None:
    columns = {"time": dt.datetime, "k": str, "v": int}
    top = ps.Topology("t")
    events = top.source("events", rows(*((n, "a", 0) for n in range(30))))
    files = top.source("files", ps.Files(tmp_path, format="parquet", schema=columns, time="time"), idle="5s")
    both = events.union("both", files)
    both.aggregate("n", window=ps.tumbling("10s"), n=ps.count()).sink("out", ps.Collect())
    run = ReferenceRun(top)
    run.step(Epoch(15))
    assert run.result()["out"].height == 0
    run.now_ns = 5 * SECOND_NS
    run.step(Epoch(10))
    assert run.result()["out"].height == 2
