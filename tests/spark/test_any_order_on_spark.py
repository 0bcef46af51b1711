"""On Spark too the rows are those of a sequential evaluation: many random chains in one topology."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import penstock as ps
from tests.operators.any_order_kit import TOGETHER, Step, cases, chains, check, interleaved, lead, source

pytestmark = pytest.mark.spark
CHAINS = 5
SEED = 4


def drawn(strategy: st.SearchStrategy[Any], number: int) -> Any:
    """A random value, the same for the same number; the first ones that are drawn are too simple."""
    found: list[Any] = []

    @settings(
        max_examples=12, database=None, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @seed(SEED + number)
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found[-1]


def test_the_rows_are_those_of_a_sequential_evaluation(spark_run: Any, record_property: Any) -> None:
    all_chains: list[list[Step]] = [drawn(chains(first=10 * n), n) for n in range(CHAINS)]
    inputs = drawn(cases, CHAINS)
    top = ps.Topology("any-order")
    sides = [interleaved([case[side] for case in inputs], SEED + side) for side in (0, 1)]
    a, b = (top.source(name, source(rows), rows_per_epoch=25) for name, rows in zip("ab", sides, strict=True))
    for n, chain in enumerate(all_chains):
        lead(top, chain, a, b, first=10 * n)
    found = spark_run.through(top)
    for n, chain in enumerate(all_chains):
        check(chain, inputs, found[f"out-{10 * n}"])
    assert not any(rows.height for name, rows in found.items() if name.startswith("late"))
    record_property("any order", (CHAINS * TOGETHER, CHAINS, SEED))
