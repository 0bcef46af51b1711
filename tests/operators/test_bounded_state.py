"""State follows what time has not passed yet: it does not grow in a long run, and is gone at the end."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from tests.operators.event_time_kit import held, rows, started

import penstock as ps
from penstock.engine.saving import size_of
from penstock.testing import Epoch, ReferenceRun

pytestmark = pytest.mark.long
EVENTS, PER_EPOCH = 1_500, 50
SPARE_BYTES = 4_000
"""Room that a slice keeps for rows to come, however few it holds."""


def pair(a: ps.Stream, b: ps.Stream, **options: str) -> ps.Stream:
    return a.join("node", b, on="k", within="20s", parallelism=1, **options)  # type: ignore[arg-type]


def windowed(a: ps.Stream, window: object) -> ps.Stream:
    figures = {"n": ps.count(), "best": ps.top("v", 2), "spread": ps.variance("v")}
    return a.aggregate("node", by="k", window=window, parallelism=1, **figures)


OPERATORS: dict[str, Callable[[ps.Stream, ps.Stream], ps.Stream]] = {
    "tumbling": lambda a, b: windowed(a, ps.tumbling("30s")),
    "sliding": lambda a, b: windowed(a, ps.sliding(length="30s", every="10s")),
    "counting": lambda a, b: windowed(a, ps.count_window(1)),
    "inner": lambda a, b: pair(a, b),
    "left": lambda a, b: pair(a, b, how="left"),
    "outer": lambda a, b: pair(a, b, how="outer"),
    "dedupe": lambda a, b: a.dedupe("node", "k", within="20s", parallelism=1),
    "restore_order": lambda a, b: a.restore_order("node"),
    "top_k": lambda a, b: a.top_k("node", 2, by="v", group=["k", "time"], parallelism=1),
}


def nbytes(run: ReferenceRun) -> int:
    return sum(size_of(one.state) or 0 for one in run._held.values())


@pytest.mark.parametrize("name", OPERATORS)
def test_state_does_not_grow_with_time_and_ends_with_it(name: str) -> None:
    """Every event has a key of its own, shared by its twin on the other side: none comes again."""
    events = [(n - 3 * (n % 2) + 3, f"key{n // 2}", n) for n in range(EVENTS)]
    lasting = rows((0, "first", 0), *events)
    run = started(lambda a, b: OPERATORS[name](a, b.filter("some", pl.col("v") % 3 != 0)), lasting, lasting)
    sizes = []
    while run.step(Epoch(PER_EPOCH)):
        sizes.append(nbytes(run))
    assert held(run) == 0
    early, late = max(sizes[5 : len(sizes) // 3]), max(sizes[-len(sizes) // 3 :])
    assert late <= 1.5 * early + SPARE_BYTES
    assert sizes[-1] <= early + SPARE_BYTES
