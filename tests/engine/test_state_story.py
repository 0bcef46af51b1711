"""Whatever workers do with a slice's log, each opens the state that a plain dict says.

Several workers with caches of their own, attempts that fail after a worker's cache has gone ahead, caches
that lag behind, compaction, other logic, other layouts, and nodes that are removed and added again.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.engine.accounts import WAYS, Accounts, Model, batch, expected

from penstock.engine import state_log
from penstock.engine.slice_state import StateCache, open_state, save_state
from penstock.engine.state_log import Head
from penstock.testing.engine import MemoryShelf
from penstock.topology import specs
from penstock.topology.graph import Node

pytestmark = pytest.mark.long

KEY = ("run", "accounts", 3)
changes = st.lists(st.tuples(st.integers(0, 11), st.integers(-5, 5), st.booleans()), max_size=6)
workers = st.integers(0, 2)


def ignore(rows: Any) -> None:
    """What is emitted is not looked at here."""


class StateStory(RuleBasedStateMachine):
    """One slice, three workers, a shelf that can be rolled back."""

    way: str

    def __init__(self) -> None:
        super().__init__()
        self.shelf = MemoryShelf()
        self.committed = MemoryShelf()
        self.model: Model = {}
        self.caches = [StateCache(1 << 30) for _ in range(3)]
        self.born = 1
        self.layout = 0

    @initialize(salt=st.integers(0, 1))
    def begin(self, salt: int) -> None:
        self.use(WAYS[self.way][0](salt))

    def use(self, operator: Accounts) -> None:
        self.operator = operator
        self.node = Node("accounts", specs.ProcessSpec(operator), parallelism=120)

    @rule(worker=workers, changes=changes, commits=st.sampled_from([True, True, True, False]))
    def epoch(self, worker: int, changes: list[tuple[int, int, bool]], commits: bool) -> None:
        """A worker serves the slice; a failed attempt leaves its cache ahead of the log."""
        held = open_state(self.node, 3, self.born, self.shelf, self.caches[worker].take(KEY))
        assert self.operator.view(held.state) == self.model
        if changes:
            returned = self.operator.process(batch(changes), held.state, ignore)
            held.state = held.state if returned is None else returned
        save_state(held, self.shelf, stagger=3)
        self.caches[worker].put(KEY, held)
        if commits:
            self.committed = copy.deepcopy(self.shelf)
            self.model = expected(self.model, changes)
        else:
            self.shelf = copy.deepcopy(self.committed)

    @rule(worker=workers, changes=changes, replayer=workers)
    def epoch_that_is_run_again(
        self, worker: int, changes: list[tuple[int, int, bool]], replayer: int
    ) -> None:
        """The same epoch fails on one worker and is repeated, perhaps on another."""
        self.epoch(worker, changes, commits=False)
        self.epoch(replayer, changes, commits=True)

    @rule(worker=workers)
    def worker_that_is_new(self, worker: int) -> None:
        self.caches[worker] = StateCache(1 << 30)

    @rule(salt=st.integers(0, 1))
    def other_logic(self, salt: int) -> None:
        self.use(type(self.operator)(salt))

    @precondition(lambda self: self.layout == 0)
    @rule()
    def other_layout(self) -> None:
        self.layout = 1
        self.use(WAYS[self.way][1](self.operator.salt))

    @rule()
    def node_that_is_removed_and_added_again(self) -> None:
        self.born += 1
        self.model = {}

    @invariant()
    def the_log_holds_nothing_but_what_its_head_names(self) -> None:
        packed = self.shelf.head()
        if packed is not None:
            head = Head.unpack(packed)
            assert sorted(self.shelf.values) == list(range(head.base, head.following))


@pytest.mark.parametrize("way", WAYS)
def test_every_worker_opens_what_a_plain_model_says(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "DELTAS_AT_MOST", 2)  # so that short stories hold compactions

    class Story(StateStory):
        pass

    Story.way = way
    run_state_machine_as_test(
        Story, settings=settings(max_examples=10, stateful_step_count=25, deadline=None, database=None)
    )
