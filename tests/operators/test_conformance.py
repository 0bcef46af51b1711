"""The operators on event time keep to what every operator must keep to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import polars as pl
import pytest
from tests.operators.event_time_kit import at

import penstock as ps
from penstock.operators.aggregate import TimeAggregate
from penstock.operators.count_aggregate import CountAggregate
from penstock.operators.dedupe import Dedupe
from penstock.operators.join import How, Join
from penstock.operators.partials import Combine, Figures
from penstock.operators.restore_order import RestoreOrder
from penstock.operators.top_k import TopK
from penstock.testing.operators import check_operator

pytestmark = pytest.mark.long

EVENTS = [
    (3, 0, 1),
    (1, 1, 2),
    (2, 0, None),
    (7, 0, 4),
    (5, 1, 4),
    (1, 0, 9),
    (9, 1, 3),
    (12, 0, 5),
    (11, 1, 1),
]
SECONDS = (4, None, 8)


def figures() -> Figures:
    return Figures.of("node", ("k",), {"n": ps.count(), "best": ps.top("v", 2), "last": ps.last("v")})


OPERATORS: dict[str, Callable[[], ps.Operator]] = {
    "tumbling": lambda: TimeAggregate(Combine(figures(), ps.tumbling("4s"), "time"), False, "kept"),
    "sliding": lambda: TimeAggregate(
        Combine(figures(), ps.sliding(length="5s", every="2s"), "time"), False, "counted"
    ),
    "counting": lambda: CountAggregate(figures(), ps.count_window(2, every=1), "time"),
    "dedupe": lambda: Dedupe(("k",), 3_000_000, "time"),
    "restore_order": lambda: RestoreOrder("time"),
    "top_k": lambda: TopK(2, "v", ("k",), "time"),
}


def epoch(first: int, name: str = "v") -> pl.DataFrame:
    rows = [(at(second), k, v) for second, k, v in EVENTS[first : first + 3]]
    return pl.DataFrame(rows, schema={"time": pl.Datetime("us"), "k": pl.Int64, name: pl.Int64}, orient="row")


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_conforms(name: str) -> None:
    times: list[dt.datetime | None] = [None if s is None else at(s) for s in SECONDS]
    made = check_operator(OPERATORS[name], [epoch(0), epoch(3), epoch(6)], times=times, processes=1)
    assert made["out"].height


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_a_join_conforms(how: How) -> None:
    both = [{"in": epoch(first), "other": epoch(first, "w")} for first in (0, 3, 6)]
    times: list[dt.datetime | None] = [None if s is None else at(s) for s in SECONDS]
    made = check_operator(
        lambda: Join(("k",), 2_000_000, None, how, "time", "time"), both, times=times, processes=1
    )
    assert made["out"].height
