"""The workers of a machine share one budget for states, and drop copies that others have gone on with.

The workers are real processes: what counts is what they hold together.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.cache_worker import held

from penstock.engine.cache_ledger import Ledger
from penstock.engine.slice_state import STALE_EPOCHS, UNSEEN_EPOCHS, StateCache

MIB = 1 << 20
BUDGET = 64 * MIB
pytestmark = pytest.mark.long


class Worker:
    """A process with a cache."""

    def __init__(self, ledger: Path, budget: int = BUDGET) -> None:
        command = [sys.executable, "-m", "tests.engine.cache_worker", str(ledger), str(budget)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.held = self.resident = 0

    def ask(self, *request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def put(self, slice_: int, epoch: int = 0, nbytes: int = MIB) -> int:
        self.held, self.resident = self.ask("put", slice_, epoch, nbytes)
        return self.held

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    found = [Worker(tmp_path / "of-machine" / "ledger") for _ in range(3)]
    yield found
    for worker in found:
        worker.end()


def test_workers_together_hold_no_more_than_the_budget_of_their_machine(workers: list[Worker]) -> None:
    """Slices wander: each of 60 states of 2 MiB comes by every worker, 360 MiB if each kept its copies."""
    draw = random.Random(3)
    for worker in workers:
        worker.put(0, 0, 1)
    before = sum(worker.resident for worker in workers)
    for epoch in range(6):
        for slice_ in range(60):
            draw.choice(workers).put(slice_, epoch, 2 * MIB)
            assert sum(worker.held for worker in workers) <= BUDGET
    for worker in workers:
        worker.put(0, 6, 1)
    # The allocator may keep some of what was let go.
    assert sum(worker.resident for worker in workers) - before < 1.5 * BUDGET


def test_a_worker_alone_may_hold_the_whole_budget(workers: list[Worker]) -> None:
    assert max(workers[0].put(n) for n in range(80)) == BUDGET


def test_a_worker_that_comes_later_gets_its_share_from_one_that_holds_all(workers: list[Worker]) -> None:
    early, late, _ = workers
    for n in range(80):
        early.put(n)
    for n in range(80):
        late.put(100 + n)
        early.put(n % 40)
    assert early.held >= BUDGET // 3
    assert late.held >= BUDGET // 3
    assert early.held + late.held <= BUDGET


def test_what_a_worker_held_that_was_killed_is_free_again(workers: list[Worker]) -> None:
    first, second, _ = workers
    for n in range(80):
        first.put(n)
    first.end()
    for n in range(80):
        second.put(n)
    assert second.held == BUDGET


def test_a_copy_is_dropped_when_another_worker_has_gone_on_with_the_slice(workers: list[Worker]) -> None:
    stays, wanders, idle = 1, 2, 3
    here, there, _ = workers
    for slice_ in (stays, wanders, idle):
        here.put(slice_, 0)
    for epoch in range(1, STALE_EPOCHS + 2):
        here.put(stays, epoch)
        there.put(wanders, epoch)
        assert here.ask("has", wanders) == (epoch <= STALE_EPOCHS + 1)
    here.put(stays, STALE_EPOCHS + 2)
    assert not here.ask("has", wanders)
    assert here.ask("has", idle)  # nobody has served it since
    assert there.ask("has", wanders)


def test_a_slice_that_was_not_seen_for_long_is_dropped() -> None:
    cache = StateCache(BUDGET)
    cache.put(("run", "node", 1), held(10), 0)
    cache.put(("run", "node", 2), held(10), UNSEEN_EPOCHS)
    assert ("run", "node", 1) in cache
    cache.put(("run", "node", 2), held(10), UNSEEN_EPOCHS + 1)
    assert ("run", "node", 1) not in cache


def test_a_run_that_is_ahead_drops_nothing_of_another() -> None:
    cache = StateCache(BUDGET)
    cache.put(("run", "node", 1), held(10), 0)
    cache.put(("other", "node", 1), held(10), 10 * UNSEEN_EPOCHS)
    assert ("run", "node", 1) in cache


def test_without_a_place_for_the_ledger_a_worker_goes_by_the_number_of_cores(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cores = os.cpu_count() or 1
    cache = StateCache(10 * cores, Ledger(tmp_path / "file" / "ledger"))
    for n in range(5):
        cache.put(("run", "node", n), held(5), n)
    assert cache.nbytes == 10
