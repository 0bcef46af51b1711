"""A join whose rows share a key: the pairs of a nested loop, at a cost that follows rows and pairs."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators import _join_state
from penstock.operators._join_state import JoinState

ON, TIME, SECOND = ("k",), "time", 1_000_000
Event = tuple[int, int]
"""A key and a time in seconds."""


def frame(events: list[Event], first: int = 0) -> pl.DataFrame:
    columns = {"time": [s * SECOND for _, s in events], "k": [k for k, _ in events]}
    rows = pl.DataFrame(columns, schema={"time": pl.Int64, "k": pl.Int64})
    number = pl.int_range(first, first + pl.len()).alias("n")
    return rows.with_columns(pl.col("time").cast(pl.Datetime("us")), number)


def nested_loop(left: list[Event], right: list[Event], within: int) -> list[tuple[int, int]]:
    return sorted(
        (i, j)
        for i, (k, s) in enumerate(left)
        for j, (other, moment) in enumerate(right)
        if k == other and abs(s - moment) <= within
    )


class Joined:
    """A join that is told batches of its sides; its state may be exported and imported in between."""

    def __init__(self, within: int) -> None:
        self.within = within * SECOND
        self.state = JoinState(ON, TIME, TIME)
        self.counts = [0, 0]
        self.pairs: list[tuple[int, int]] = []

    def take(self, number: int, events: list[Event]) -> None:
        side = self.state.sides[number]
        batch = frame(events, self.counts[number])
        self.counts[number] += len(events)
        for mine, theirs in self.state.take(batch, side, self.within):
            assert len(mine) <= _join_state.PAIRS
            lefts, rights = (mine, theirs) if number == 0 else (theirs, mine)
            found = [s.rows.gather(p)["n"] for s, p in zip(self.state.sides, (lefts, rights), strict=True)]
            self.pairs += zip(*found, strict=True)

    def restore(self) -> None:
        before, self.state = self.state, JoinState(ON, TIME, TIME)
        self.state.apply(before.export_base())


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 120)), min_size=1, max_size=6),
    keys=st.sampled_from([1, 1, 2, 40]),
    span=st.sampled_from([60, 2_000]),
    within=st.sampled_from([0, 3, 20]),
    disorder=st.sampled_from([0, 4, 150, 10_000]),
    pairs_at_once=st.sampled_from([40, 1 << 18]),
    restores=st.sets(st.integers(0, 5)),
)
def test_the_pairs_are_those_of_a_nested_loop(
    seed: int, sizes: list[Any], keys: int, span: int, within: int, disorder: int, pairs_at_once: int,
    restores: set[int],
) -> None:  # fmt: skip
    """In any order of arrival, any batches, and no restore shows in their order."""
    draw = random.Random(seed)
    total = [sum(size for side, size in sizes if side == number) for number in (0, 1)]
    sides = [
        sorted(
            ((draw.randrange(keys), draw.randrange(span)) for _ in range(count)),
            key=lambda event: event[1] + draw.random() * disorder,
        )
        for count in total
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_join_state, "PAIRS", pairs_at_once)
        straight, restored = Joined(within), Joined(within)
        for step, (number, size) in enumerate(sizes):
            first = straight.counts[number]
            for joined in (straight, restored):
                joined.take(number, sides[number][first : first + size])
            if step in restores:
                restored.restore()
    assert sorted(straight.pairs) == nested_loop(sides[0], sides[1], within)
    assert straight.pairs == restored.pairs


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), keys=st.sampled_from([1, 3, 30]), step=st.integers(20, 200))
def test_rows_that_are_let_go_take_no_pair_with_them(seed: int, keys: int, step: int) -> None:
    draw, within, disorder = random.Random(seed), 20, 15
    sides = [
        sorted(((draw.randrange(keys), draw.randrange(600)) for _ in range(900)),
               key=lambda event: event[1] + draw.random() * disorder)
        for _ in (0, 1)
    ]  # fmt: skip
    joined = Joined(within)
    for first in range(0, 900, step):
        for number in (0, 1):
            joined.take(number, sides[number][first : first + step])
        rest = [s for side in sides for _, s in side[first + step :]]
        for side in joined.state.sides:
            side.rows.clock = min(rest, default=0) * SECOND
        joined.state.drop_before((min(rest, default=0) - within) * SECOND)
    assert sorted(joined.pairs) == nested_loop(sides[0], sides[1], within)


def work(rows: int, *, batch: int, order: str, apart: int = 0) -> int:
    """Rows that a join of one key looks at or moves, for about three pairs a row."""
    moments = list(range(rows))
    if order == "shuffled":
        random.Random(1).shuffle(moments)
    joined = Joined(1)
    for first in range(0, rows, batch):
        joined.take(1, [(0, s + apart) for s in moments[first : first + batch]])
    for first in range(0, rows, batch):
        joined.take(0, [(0, s) for s in moments[first : first + batch]])
    assert len(joined.pairs) == max(0, 3 * (rows - apart) - 2) or apart
    return joined.state.looked


@pytest.mark.parametrize(("order", "batch"), [("ordered", 50), ("ordered", 10**6), ("shuffled", 10**6)])
def test_the_work_on_a_hot_key_follows_its_rows(order: str, batch: int) -> None:
    few, many = (work(rows, batch=batch, order=order) for rows in (1_000, 8_000))
    assert many < 8 * 2 * few  # rows times their logarithm, not rows times rows
    assert many < 60 * 8_000


def test_rows_of_the_other_side_that_are_far_away_in_time_are_not_looked_at() -> None:
    assert work(4_000, batch=20, order="ordered", apart=10**6) < 40 * 4_000


def test_a_list_of_rows_is_in_the_order_of_time_and_then_of_arrival() -> None:
    joined = Joined(1_000)
    moments = [draw % 97 for draw in np.random.default_rng(2).integers(0, 1 << 30, 500).tolist()]
    joined.take(1, [(0, s) for s in moments])
    joined.take(0, [(0, 0)])
    assert [n for _, n in joined.pairs] == sorted(range(500), key=lambda n: (moments[n], n))
