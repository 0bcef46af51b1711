"""A new version leaves nodes in their hops as far as the order of the graph allows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plan.test_passes import Echo, rows

import penstock as ps
from penstock.plan import plan
from penstock.plan.placing import keep_hops
from penstock.plan.program import Program

Shape = dict[str, tuple[str, ...]]
"""The inputs of each keyed node: other nodes, or none for the source."""


def program(shape: Shape, *, native_behind: str | None = None) -> Program:
    """Keyed nodes with these inputs, each led to a sink of its own."""
    top = ps.Topology("t")
    source = rows(top)
    made: dict[str, ps.Stream] = {}
    for name, inputs in shape.items():
        first, *others = [made[i] for i in inputs] or [source]
        also = {f"side{i}": other.key_by("user") for i, other in enumerate(others)} or None
        made[name] = first.key_by("user").process(name, Echo(), also=also)
        made[name].sink(f"{name}-out", ps.Collect())
    if native_behind is not None:
        made[native_behind].dataframe("sql", same, returns={"user": str}).sink("sql-out", ps.Collect())
    return plan(top)


def same(df: pl.DataFrame) -> pl.DataFrame:
    return df


def hops_of(placed: Program) -> dict[str, int]:
    return {name: placed.depth[name] for name in placed.hosted}


def chain(*names: str) -> Shape:
    return {name: (before,) if before else () for before, name in itertools.pairwise(("", *names))}


def test_a_node_stays_when_those_in_front_of_it_are_removed() -> None:
    running = program(chain("a", "b", "c"))
    assert hops_of(keep_hops(program(chain("b", "c")), running, 3)) == {"b": 2, "c": 3}
    assert hops_of(keep_hops(program(chain("c")), running, 3)) == {"c": 3}


def test_only_the_nodes_that_must_give_way_move() -> None:
    running = program(chain("a", "b"))
    inserted = {"new": (), "a": ("new",), "b": ("a",)}
    assert hops_of(keep_hops(program(inserted), running, 4)) == {"new": 1, "a": 2, "b": 3}
    beside = {"a": (), "new": ("a",), "b": ("a",), "c": ("new", "b")}
    assert hops_of(keep_hops(program(beside), running, 4)) == {"a": 1, "new": 2, "b": 2, "c": 3}


def test_a_node_moves_upstream_when_the_nodes_behind_it_need_its_hop() -> None:
    running = program(chain("a", "b", "c"))
    shape = {"c": (), "x": ("c",), "y": ("x",)}
    assert hops_of(keep_hops(program(shape), running, 3)) == {"c": 1, "x": 2, "y": 3}
    assert hops_of(keep_hops(program(shape), running, 5)) == {"c": 3, "x": 4, "y": 5}


def test_nodes_that_change_places_both_fit() -> None:
    running = program(chain("a", "b"))
    assert hops_of(keep_hops(program(chain("b", "a")), running, 2)) == {"b": 1, "a": 2}


def test_a_spark_dataframe_stays_behind_its_hop_although_its_input_comes_earlier() -> None:
    running = program(chain("a", "b"), native_behind="b")
    placed = keep_hops(program(chain("a"), native_behind="a"), running, 2)
    assert (placed.depth["a"], placed.depth["sql"]) == (1, 2)


def test_a_spark_dataframe_whose_input_comes_later_shows_that_it_would_move() -> None:
    running = program(chain("a"), native_behind="a")
    placed = keep_hops(program(chain("new", "a"), native_behind="a"), running, 2)
    assert placed.depth["sql"] == 2


@st.composite
def shapes(draw: st.DrawFn, names: Iterable[str] = "abcdef") -> Shape:
    """Random graphs over the same names, in a random order."""
    order = draw(st.permutations(list(names)).map(lambda p: p[: draw(st.integers(1, 5))]))
    shape: Shape = {}
    for name in order:
        shape[name] = tuple(draw(st.sets(st.sampled_from(list(shape)), max_size=2))) if shape else ()
    return shape


@settings(max_examples=150, deadline=None, database=None)
@given(running=shapes(), desired=shapes(), spare=st.integers(0, 2))
def test_every_node_stands_behind_its_inputs_and_stays_unless_it_must_move(
    running: Shape, desired: Shape, spare: int
) -> None:
    before, natural = program(running), program(desired)
    hops = max(before.hops, natural.hops) + spare
    placed = hops_of(keep_hops(natural, before, hops))
    behind = {name: longest_way_behind(desired, name) for name in desired}
    for name, inputs in desired.items():
        earliest = 1 + max((placed[i] for i in inputs), default=0)
        assert earliest <= placed[name] <= hops - behind[name]
        if name in before.hosted and placed[name] != before.depth[name]:
            assert before.depth[name] < earliest or before.depth[name] > hops - behind[name]
        if name not in before.hosted:
            assert placed[name] == earliest


def longest_way_behind(shape: Shape, name: str) -> int:
    return max((1 + longest_way_behind(shape, n) for n, inputs in shape.items() if name in inputs), default=0)
