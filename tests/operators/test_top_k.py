"""The greatest rows of a group at every moment."""

from __future__ import annotations

import pytest
from tests.operators.event_time_kit import at, epochs, held, out, patient_rows, rows, started

import penstock as ps
from penstock.errors import BadArgument


def test_a_row_is_told_when_it_enters_with_the_rank_that_it_has_then() -> None:
    run = started(
        lambda s: s.top_k("best", 2, by="v", group="k", parallelism=2),
        rows((1, "a", 5), (2, "a", 7), (3, "a", 6), (4, "a", 1)),
    )
    epochs(run, *[1] * 4).drain()
    assert out(run) == [(at(1), "a", 5, 1), (at(2), "a", 7, 1), (at(3), "a", 6, 2)]


def test_of_equal_rows_the_earlier_one_leads() -> None:
    run = started(lambda s: s.top_k("best", 1, by="v"), patient_rows((2, "b", 5), (1, "a", 5)))
    run.drain()
    assert out(run) == [(at(1), "a", 5, 1)]


def test_the_top_of_each_window_behind_an_aggregate() -> None:
    def build(stream: ps.Stream) -> ps.Stream:
        counts = stream.aggregate("counts", by="k", window=ps.tumbling("10s"), n=ps.count())
        return counts.top_k("top", 1, by="n", group="end", time="end")

    run = started(build, rows((1, "a", 0), (2, "b", 0), (3, "b", 0), (11, "a", 0)))
    epochs(run, 3).drain()
    assert out(run) == [("a", at(10), at(20), 1, 1), ("b", at(0), at(10), 2, 1)]
    assert held(run) == 0  # a moment that has passed leaves nothing


def test_no_more_than_k_rows_of_a_group_are_held() -> None:
    run = started(
        lambda s: s.top_k("best", 3, by="v", group="k"), rows(*((n, "ab"[n % 2], n) for n in range(100)))
    )
    run.drain()
    assert held(run) == 2 * 3


def test_a_top_of_none_is_refused() -> None:
    with pytest.raises(BadArgument):
        ps.Topology("t").source("s", rows()).top_k("best", 0, by="v")
