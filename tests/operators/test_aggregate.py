"""Windows close when no source can send into them any more, and say what came too late."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.event_time_kit import at, epochs, held, out, patient_rows, rows, started

import penstock as ps
from penstock.errors import BadArgument, MissingColumn
from penstock.plan.passes import plan
from penstock.testing import Epoch


def counting(**options: Any) -> Any:
    chosen = {"by": "k", "window": ps.tumbling("10s"), "n": ps.count(), "parallelism": 2} | options
    return lambda stream: stream.aggregate("counts", **chosen)


def test_a_window_closes_when_its_source_has_passed_its_end() -> None:
    run = started(counting(), rows((1, "a", 0), (9, "a", 0), (10, "a", 0), (11, "a", 0)))
    assert out(epochs(run, 2)) == []
    assert out(epochs(run, 1)) == [("a", at(0), at(10), 2)]
    run.drain()
    assert out(run)[1:] == [("a", at(10), at(20), 2)]


def test_a_window_waits_for_the_slowest_source() -> None:
    def build(fast: ps.Stream, slow: ps.Stream) -> ps.Stream:
        return counting()(fast.union("both", slow))

    run = started(build, rows((1, "a", 0), (99, "a", 0)), rows((2, "a", 0), (3, "a", 0), (50, "a", 0)))
    assert out(epochs(run, 2)) == []
    run.drain()
    assert out(run)[0] == ("a", at(0), at(10), 3)


def test_late_events_are_counted_by_group_and_pane_and_merged_nowhere() -> None:
    events = ((1, "a", 0), (12, "a", 0), (3, "a", 0), (4, "a", 0), (None, "b", 0))
    run = started(counting(), rows(*events))
    epochs(run, 2, 3).drain()
    assert out(run) == [("a", at(0), at(10), 1), ("a", at(10), at(20), 1)]
    assert out(run, "late") == [("a", at(0), 2), ("b", None, 1)]


def test_late_events_are_kept_as_they_came_if_asked() -> None:
    run = started(counting(late="kept"), rows((1, "a", 5), (12, "a", 6), (3, "a", 7), (None, "b", 8)))
    epochs(run, 2, 2).drain()
    assert out(run) == [("a", at(0), at(10), 1), ("a", at(10), at(20), 1)]
    assert out(run, "late") == [(None, "b", 8), (at(3), "a", 7)]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    seconds=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    size=st.integers(1, 7),
    late=st.sampled_from(["counted", "kept"]),
)
def test_whatever_a_source_does_each_event_is_counted_once_or_late(
    seconds: list[int], size: int, late: str
) -> None:
    run = started(counting(late=late), rows(*((second, "ab"[second % 2], 1) for second in seconds)))
    run.drain(Epoch(size))
    too_late = run.result()["to-late"]
    counted = too_late["events"].sum() if late == "counted" else too_late.height
    assert run.result()["to-out"]["n"].sum() + counted == len(seconds)
    assert len(set(run.result()["to-out"].select("k", "start").rows())) == run.result()["to-out"].height


def test_columns_named_like_those_of_a_window_are_read_as_they_are() -> None:
    def build(stream: ps.Stream) -> ps.Stream:
        first = stream.aggregate("first", window=ps.tumbling("2s"), n=ps.count())
        return first.aggregate("second", window=ps.tumbling("10s"), time="end", since=ps.min("start"))

    run = started(build, rows((5, "a", 0), (7, "a", 0)))
    run.drain()
    assert out(run) == [(at(0), at(10), at(4))]


def test_an_event_behind_the_punctuation_counts_while_its_window_is_open() -> None:
    run = started(counting(), rows((8, "a", 0), (3, "a", 0), (20, "a", 0)))
    epochs(run, 1, 1, 1).drain()
    assert out(run)[0] == ("a", at(0), at(10), 2)
    assert out(run, "late") == []


@pytest.mark.long
def test_nothing_is_held_of_windows_that_have_closed() -> None:
    run = started(
        counting(window=ps.sliding(length="10s", every="5s")),
        rows(*((n, "abc"[n % 3], n) for n in range(200))),
    )
    most = 0
    for _ in range(20):
        epochs(run, 10)
        most = max(most, held(run))
    assert 0 < most <= 3 * 3 * 3  # keys × panes of open windows × epochs that a pane is spread over
    run.drain()
    assert held(run) == 0


@pytest.mark.long
def test_partials_are_merged_before_the_window_closes_when_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.operators.aggregate._WORTHWHILE", 4)
    run = started(
        counting(window=ps.tumbling("1h"), total=ps.sum("v")),
        rows(*((n, "ab"[n % 2], n) for n in range(100))),
    )
    epochs(run, *[2] * 49)
    assert held(run) <= 20
    run.drain()
    assert out(run) == [("a", at(0), at(3600), 50, 2450), ("b", at(0), at(3600), 50, 2500)]


def test_what_is_saved_follows_what_changed_and_not_what_is_held() -> None:
    many = [(n * 1e-3, f"key{n}", n) for n in range(2000)]
    run = started(
        counting(window=ps.tumbling("1h"), parallelism=1), rows(*many, (3, "one", 1), (4, "two", 1))
    )
    epochs(run, 2000)
    shelf = run._shelves[1, "counts", 0]
    before = {number: len(value) for number, value in shelf.values.items()}
    epochs(run, 1)
    written = sum(len(value) for number, value in shelf.values.items() if number not in before)
    assert written < sum(before.values()) / 10


def test_algebraic_aggregates_are_combined_in_the_sender() -> None:
    run = started(counting(), rows(*((1, "hot", n) for n in range(1000))))
    run.drain()
    assert run.counters.nodes["counts.combine"]["rows_in"] == 1000
    assert run.counters.nodes["counts"]["rows_in"] == 1


def test_own_aggregates_that_say_how_to_combine_are_combined_in_the_sender_too() -> None:
    largest = ps.fold(
        "v", init=lambda: 0, add=lambda best, rows: max(best, rows["v"].max()), merge=max,
        result=lambda best: best, returns=int,
    )  # fmt: skip
    skewed = [(n / 100, "hot" if n % 2 else f"cold{n % 20}", n) for n in range(1000)]
    run = started(counting(largest=largest, n=ps.count()), rows(*skewed))
    epochs(run, 250, 250, 250, 250).drain()
    assert run.counters.nodes["counts.combine"]["rows_in"] == 1000
    assert run.counters.nodes["counts"]["rows_in"] == 4 * 11  # epochs × keys, however hot one is
    assert ("hot", at(0), at(10), 500, 999) in out(run)


def test_an_aggregate_that_keeps_every_value_is_not_combined() -> None:
    run = started(counting(middle=ps.quantile("v", 0.5)), rows(*((1, "hot", n) for n in range(11))))
    run.drain()
    assert "counts.combine" not in run.program.graph.nodes
    assert out(run) == [("hot", at(0), at(10), 11, 5.0)]


def test_count_windows_count_in_the_order_of_time_whatever_the_arrivals() -> None:
    events = [(5, "a", 5), (1, "a", 1), (3, "a", 3), (2, "a", 2), (9, "a", 9)]
    run = started(counting(window=ps.count_window(2), sum=ps.sum("v"), parallelism=1), patient_rows(*events))
    run.drain()
    assert out(run) == [("a", at(1), at(2), 2, 3), ("a", at(3), at(5), 2, 8)]


def test_count_windows_hold_only_the_events_of_open_windows() -> None:
    run = started(counting(window=ps.count_window(4, every=2)), rows(*((n, "a", n) for n in range(100))))
    for _ in range(9):
        epochs(run, 10)
        assert held(run) <= 4
    assert len(out(run)) == 43


def test_sums_of_narrow_integers_do_not_overflow() -> None:
    def build(stream: ps.Stream) -> ps.Stream:
        import polars as pl

        narrow = stream.map("narrow", lambda df: df.with_columns(pl.col("v").cast(pl.Int32)))
        return narrow.aggregate("sums", window=ps.tumbling("10s"), s=ps.sum("v"), m=ps.mean("v"))

    run = started(build, rows((1, "a", 2**31 - 1), (2, "a", 2**31 - 1)))
    run.drain()
    assert out(run) == [(at(0), at(10), 2**32 - 2, float(2**31 - 1))]


def test_a_missing_column_is_told_before_anything_runs() -> None:
    top = ps.Topology("t")
    top.source("s", rows()).aggregate("counts", by="k", window=ps.tumbling("1s"), n=ps.sum("bytes")).sink(
        "out", ps.Collect()
    )
    with pytest.raises(MissingColumn) as caught:
        plan(top)
    assert caught.value.parameters["column"] == "bytes"


@pytest.mark.parametrize(
    "options",
    [
        {"start": ps.count()},
        {"k": ps.count()},
        {"n": "count"},
        {"late": "dropped"},
        {"window": "5s"},
        {"by": ("k", "k")},
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    top = ps.Topology("t")
    with pytest.raises(BadArgument):
        counting(**options)(top.source("s", rows()))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ps.tumbling("0s"),
        lambda: ps.sliding(length="5s", every="6s"),
        lambda: ps.count_window(0),
        lambda: ps.count_window(2, every=3),
        lambda: ps.quantile("v", 1.5),
        lambda: ps.top("v", 0),
    ],
)
def test_impossible_windows_and_aggregates_are_refused(make: Any) -> None:
    with pytest.raises(BadArgument):
        make()
