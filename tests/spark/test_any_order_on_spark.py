"""On Spark too the rows are those of a sequential evaluation: many random chains, two epochs repeated."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.testing.chaos.damage import lose_last_commit
from tests.operators.any_order_kit import TOGETHER, Step, cases, chains, check, interleaved, lead, source

pytestmark = pytest.mark.spark
CHAINS = 5
SEED = 4
UNHURRIED = dt.timedelta(seconds=1)
"""From epoch to epoch: time enough to notice one and to stop before the last."""


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


def interrupted(spark_run: Any, top: ps.Topology, *, is_written: bool) -> int:
    """Stop after a further epoch and take its commit away, as a driver that died there; gives its number.

    Unless it ``is_written`` the sinks have nothing of it either, and get the rows that the repetition makes.
    """
    known = len(list((spark_run.directory / "checkpoint" / "commits").glob("[0-9]*")))
    with spark_run.start(top, every=UNHURRIED) as handle:
        while (progress := handle.progress()) is None or progress.epoch <= known:
            if handle.poll(0.02):
                break  # that was its last epoch, which is repeated as well as another
    last = handle.history()[-1].epoch
    lose_last_commit(spark_run.directory / "checkpoint")
    if not is_written:
        files = list((spark_run.directory / "collect").glob(f"*/{last:012d}.arrow"))
        assert files, "the epoch has put something out"
        for file in files:
            file.unlink()
    return last


def test_the_rows_are_those_of_a_sequential_evaluation(spark_run: Any, record_property: Any) -> None:
    all_chains: list[list[Step]] = [drawn(chains(first=10 * n), n) for n in range(CHAINS)]
    inputs = drawn(cases, CHAINS)
    top = ps.Topology("any-order")
    sides = [interleaved([case[side] for case in inputs], SEED + side) for side in (0, 1)]
    a, b = (top.source(name, source(rows), rows_per_epoch=20) for name, rows in zip("ab", sides, strict=True))
    for n, chain in enumerate(all_chains):
        lead(top, chain, a, b, first=10 * n)
    repeated = [interrupted(spark_run, top, is_written=is_written) for is_written in (False, True)]
    assert repeated[0] < repeated[1]
    found = spark_run.through(top)
    for n, chain in enumerate(all_chains):
        check(chain, inputs, found[f"out-{10 * n}"])
    assert not any(rows.height for name, rows in found.items() if name.startswith("late"))
    record_property("any order", (CHAINS * TOGETHER, CHAINS, SEED))
