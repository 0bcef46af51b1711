"""A state that is a dict of containers: any may be added, removed or replaced, and all may be gone."""

from __future__ import annotations

import copy
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.saving import WAYS, size_of
from penstock.engine.slice_state import Held, StateCache, open_state, save_state
from penstock.engine.state_log import Head
from penstock.operators.timed_rows import TimedRows
from penstock.testing.engine import MemoryShelf
from penstock.testing.operators import check_operator
from penstock.topology import specs
from penstock.topology.graph import Node

Model = dict[str, dict[int, int]]
Step = tuple[str, str, int]
KEY = ("run", "shelves", 0)


class Shelves(ps.Operator):
    """Tables by name that come and go; begins with one."""

    returns = {"table": str}

    def init_state(self) -> dict[str, Any]:
        return {"first": table()}

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Any) -> None:
        for what, name, number in batch.iter_rows():
            change(state, what, name, number)


def table() -> ps.KeyedTable:
    return ps.KeyedTable({"key": int}, {"total": int})


def change(state: dict[str, Any], what: str, name: str, number: int) -> None:
    if what == "remove":
        state.pop(name, None)
    elif what == "clear":
        state.clear()
    elif what == "replace":
        state[name] = table()
    elif name in state:
        state[name].add("total", state[name].rows([pl.Series([number % 3])]), number)


def believed(model: Model, what: str, name: str, number: int) -> None:
    if what == "remove":
        model.pop(name, None)
    elif what == "clear":
        model.clear()
    elif what == "replace":
        model[name] = {}
    elif name in model:
        model[name][number % 3] = model[name].get(number % 3, 0) + number


def view(state: dict[str, Any]) -> Model:
    return {name: dict(part.frame().rows()) for name, part in state.items()}


steps = st.tuples(
    st.sampled_from(["add", "add", "remove", "replace", "clear"]),
    st.sampled_from(["first", "second", "third"]),
    st.integers(1, 9),
)


@settings(max_examples=300, deadline=None)
@given(
    epochs=st.lists(
        st.tuples(st.lists(steps, max_size=3), st.sampled_from(["keep", "lag", "restore"])), max_size=9
    )
)
def test_a_dict_of_tables_is_what_a_dict_of_dicts_says(epochs: list[tuple[list[Step], str]]) -> None:
    """Whatever is added and removed, on any worker, and after a restore."""
    node, shelf, model = Node("shelves", specs.ProcessSpec(Shelves())), MemoryShelf(), {"first": {}}
    here, there = StateCache(1 << 30), StateCache(1 << 30)
    for taken, how in epochs:
        cache = {"keep": here, "lag": there, "restore": StateCache(1 << 30)}[how]
        held = open_state(node, 0, 1, shelf, cache.take(KEY))
        assert view(held.state) == model
        for what, name, number in taken:
            change(held.state, what, name, number)
            believed(model, what, name, number)
        cache.put(KEY, save_state(held, shelf, stagger=0))
        assert size_of(held.state) >= 0
        assert exported(shelf) in (model, None)


def exported(shelf: MemoryShelf) -> Model | None:
    packed = shelf.head()
    if packed is None:
        return None
    head = Head.unpack(packed)
    frames = WAYS[head.way](Shelves()).exported(shelf, head)
    return {name: dict(rows.rows()) for name, rows in frames.items()}


def saved(*taken: Step) -> Model:
    """The state that a restore gives after one epoch."""
    node, shelf = Node("shelves", specs.ProcessSpec(Shelves())), MemoryShelf()
    held = open_state(node, 0, 1, shelf, None)
    for step in taken:
        change(held.state, *step)
    save_state(held, shelf, stagger=0)
    return view(open_state(node, 0, 1, shelf, None).state)


def test_a_table_that_is_removed_in_the_first_epoch_stays_removed() -> None:
    assert saved(("clear", "", 0)) == {}
    assert saved(("replace", "second", 0), ("remove", "first", 0)) == {"second": {}}


def test_an_operator_that_loses_all_its_tables_passes_the_checks_for_operators() -> None:
    columns = {"what": pl.String, "name": pl.String, "number": pl.Int64}
    stories = [[("add", "first", 4)], [("clear", "", 0)], [("add", "first", 4)], [("replace", "second", 0)]]
    batches = [pl.DataFrame(story, schema=columns, orient="row") for story in stories]
    check_operator(Shelves, batches, processes=1)


def test_a_container_that_could_not_be_restored_is_refused_when_it_is_saved() -> None:
    node, shelf = Node("shelves", specs.ProcessSpec(Shelves())), MemoryShelf()
    held: Held = open_state(node, 0, 1, shelf, None)
    held.state["rows"] = TimedRows("time")
    before = copy.deepcopy(shelf.values)
    with pytest.raises(TypeError, match="TimedRows under the name 'rows'"):
        save_state(held, shelf, stagger=0)
    assert shelf.values == before
