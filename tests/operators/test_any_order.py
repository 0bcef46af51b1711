"""Whatever the order, the interleaving, the cuts, the splits and the repeats: the same rows come out.

Random chains of the operators on event time run on the reference engine and are compared with a plain
sequential evaluation. ``PENSTOCK_CASES`` says how many cases are run and ``PENSTOCK_SEED`` which; a failing
one is shrunk and printed with the seed of its arrivals. ``tests/conftest.py`` prints how many there were.
"""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st
from tests.operators.any_order_kit import TOGETHER, Step, cases, chains, check, interleaved, lead, source
from tests.operators.event_time_oracle import Rows

import penstock as ps
from penstock.testing import Epoch, ReferenceRun

CASES = int(os.environ.get("PENSTOCK_CASES", "20000"))
SEED = int(os.environ.get("PENSTOCK_SEED", "4"))
SHARDS = 8
pytestmark = [pytest.mark.long, pytest.mark.timeout(120 + CASES // 20)]
cuts = st.lists(st.builds(Epoch, st.integers(1, 120), st.integers(1, 3)), max_size=4)


def step_and_repeat(run: ReferenceRun, cut: Epoch | None, *, fails: bool) -> bool:
    """An epoch; if it fails, its attempt leaves nothing but caches that are ahead, and it is run again."""
    if fails:
        names = ("_shelves", "_offsets", "_punctuations", "epoch", "outputs")
        before = {name: copy.deepcopy(getattr(run, name)) for name in names}
        run.step(cut)
        vars(run).update(before)
    return run.step(cut)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_rows_are_those_of_a_sequential_evaluation(
    shard: int, record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    chains_run = 0
    if shard % 2:  # the way of windows that share many panes, which these cases are too small for
        monkeypatch.setattr("penstock.operators.aggregate._FEW_WINDOWS", 0)
        monkeypatch.setattr("penstock.operators.count_aggregate._FEW_WINDOWS", 0)

    @settings(
        max_examples=-(-CASES // SHARDS // TOGETHER), deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink], print_blob=True,
    )  # fmt: skip
    @seed(SEED * SHARDS + shard)
    @given(
        chain=chains(), inputs=cases, cut=cuts, rest=st.integers(15, 200), arrivals=st.integers(0, 10**6),
        keep=st.booleans(), failing=st.sets(st.integers(0, 3), max_size=2),
    )  # fmt: skip
    def run_cases(
        chain: list[Step], inputs: Any, cut: list[Epoch], rest: int, arrivals: int, keep: bool,
        failing: set[int],
    ) -> None:  # fmt: skip
        nonlocal chains_run
        chains_run += 1
        note(f"PENSTOCK_SEED={SEED}, shard {shard}, arrivals {arrivals}, chain {chain}")
        sides = [interleaved([case[side] for case in inputs], arrivals + side) for side in (0, 1)]
        run = ReferenceRun(topology(chain, *sides), seed=arrivals, keep_decoded=keep)
        for epoch, size in enumerate([*cut, *itertools.repeat(Epoch(rest), 1000)]):
            if not step_and_repeat(run, size, fails=epoch in failing):
                break
        results = run.result()
        check(chain, inputs, results["out-0"])
        assert not any(rows.height for name, rows in results.items() if name.startswith("late"))

    run_cases()
    record_property("any order", (chains_run * TOGETHER, chains_run, SEED * SHARDS + shard))


def topology(chain: list[Step], a: Rows, b: Rows) -> ps.Topology:
    top = ps.Topology("any-order")
    left, right = top.source("a", source(a)), top.source("b", source(b))
    lead(top, chain, left, right)
    right.sink("unused", ps.Collect())
    return top
