"""Pairs as soon as both sides are there, lonely rows when no partner can come, and nothing held longer."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.operators.event_time_kit import at, epochs, held, out, rows, started

import penstock as ps
from penstock.errors import BadArgument, SchemaUnknown
from penstock.plan.passes import plan


def joining(**options: Any) -> Any:
    chosen = {"on": "k", "within": "5s", "parallelism": 2} | options
    return lambda a, b: a.join("pairs", b, **chosen)


def test_a_pair_is_emitted_in_the_epoch_in_which_its_second_row_comes() -> None:
    run = started(joining(), rows((1, "a", 1), (2, "x", 2)), rows((30, "y", 0), (31, "y", 0)))
    assert out(epochs(run, 1)) == []
    run = started(joining(), rows((1, "a", 1), (90, "x", 2)), rows((6, "a", 7), (90, "y", 0)))
    assert out(epochs(run, 1)) == [("a", at(6), at(1), at(6), 1, 7)]


@pytest.mark.parametrize(("second", "pairs"), [(6, 1), (6.000001, 0)])
def test_the_distance_may_be_reached_but_not_exceeded(second: float, pairs: int) -> None:
    run = started(joining(), rows((1, "a", 1)), rows((second, "a", 2)))
    run.drain()
    assert len(out(run)) == pairs


def test_left_and_outer_give_lonely_rows_at_the_end_of_their_waiting() -> None:
    run = started(
        joining(how="outer"),
        rows((1, "a", 1), (8, "c", 0), (9, "c", 0)),
        rows((1, "b", 2), (8, "c", 0), (9, "c", 0)),
    )
    assert out(epochs(run, 1, 1)) == [
        ("a", at(6), at(1), None, 1, None),
        ("b", at(6), None, at(1), None, 2),
        ("c", at(8), at(8), at(8), 0, 0),
    ]
    run = started(joining(how="left"), rows((1, "a", 1)), rows((1, "b", 2)))
    run.drain()
    assert out(run) == [("a", at(6), at(1), None, 1, None)]


def test_a_lonely_row_is_emitted_where_the_other_side_was_never_seen() -> None:
    run = started(joining(how="left"), rows((1, "a", 1)), rows())
    run.drain()
    assert out(run) == [("a", at(6), at(1), None, 1, None)]


def test_a_pair_that_the_predicate_refuses_leaves_its_rows_lonely() -> None:
    run = started(
        joining(how="left", predicate=pl.col("v") < pl.col("v_right")), rows((1, "a", 5)), rows((1, "a", 2))
    )
    run.drain()
    assert out(run) == [("a", at(6), at(1), None, 5, None)]


def test_a_null_in_the_key_matches_nothing() -> None:
    run = started(joining(how="left"), rows((1, None, 5)), rows((1, None, 2)))
    run.drain()
    assert out(run) == [(None, at(6), at(1), None, 5, None)]


def test_late_rows_of_each_side_have_an_output_of_their_own() -> None:
    run = started(
        joining(),
        rows((10, "a", 1), (3, "a", 2), (11, "a", 3)),
        rows((10, "a", 1), (4, "a", 5), (11, "a", 6)),
    )
    epochs(run, 1, 1).drain()
    assert out(run, "late") == [(at(3), "a", 2)]
    assert out(run, "late-other") == [(at(4), "a", 5)]


@pytest.mark.long
@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_rows_that_can_match_no_more_are_let_go(how: str) -> None:
    many = [(n, f"key{n}", n) for n in range(300)]
    run = started(joining(how=how), rows(*many), rows(*many))
    for _ in range(30):
        epochs(run, 10)
        assert held(run) <= 2 * (10 + 5) * 4 / 3 + 4  # both sides: an epoch and the distance, and the slack
    assert held(run) == 0
    assert len(out(run)) == 300


def test_keys_of_different_types_are_refused_before_anything_runs() -> None:
    top = ps.Topology("t")
    other = top.source("b", rows()).map(
        "number", lambda df: df.with_columns(pl.lit(1).cast(pl.Int64).alias("k"))
    )
    joining()(top.source("a", rows()), other).sink("out", ps.Collect())
    with pytest.raises(SchemaUnknown):
        plan(top)


@pytest.mark.parametrize("options", [{"how": "right"}, {"on": ()}, {"within": "5 parsecs"}])
def test_what_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    top = ps.Topology("t")
    with pytest.raises(BadArgument):
        joining(**options)(top.source("a", rows()), top.source("b", rows()))
