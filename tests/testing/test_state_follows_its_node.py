"""State follows the name of its node, wherever a change puts the node; judged by a closed form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.testing.test_reference_engine import ROWS, Numbered, source

import penstock as ps
from penstock.testing import Epoch, ReferenceRun

SHAPES = ("alone", "behind a map", "behind two maps", "behind another count", "before another count")
NUMBERS = Counter(
    (key, number)
    for key, rows in Counter(f"k{n * 7 % 5}" for n in range(ROWS)).items()
    for number in range(1, rows + 1)
)
"""One number for each row of a key, by the generator's formula alone. State lost or revived repeats some."""


def plain(df: pl.DataFrame) -> pl.DataFrame:
    return df.select("n", "key")


def topology(shape: str) -> ps.Topology:
    """Return rows → … → count → out, with other nodes in front of the count or behind it."""
    top = ps.Topology("moves")
    stream = source(top)
    if shape in ("behind a map", "behind two maps"):
        stream = stream.shuffle().map("spread", plain, parallelism=2)
    if shape == "behind two maps":
        stream = stream.shuffle().map("again", plain, parallelism=3)
    if shape == "behind another count":
        stream = stream.key_by("key").process("other", Numbered(), parallelism=3).map("bare", plain)
    counted = stream.key_by("key").process("count", Numbered(), parallelism=3)
    counted.sink("out", ps.Collect())
    if shape == "before another count":
        again = counted.map("bare", plain).key_by("key").process("other", Numbered(), parallelism=3)
        again.sink("others", ps.Collect())
    return top


def numbers_after(story: Sequence[tuple[int, str]], **options: object) -> Counter[tuple[str, int]]:
    """Run epochs of so many rows, each followed by a change, then the rest; count what the sink got."""
    run = ReferenceRun(topology("alone"), **options)  # type: ignore[arg-type]
    for rows, shape in story:
        run.step(Epoch(rows))
        run.change(topology(shape))
    run.drain(Epoch(7))
    return Counter(run.result()["out"].select("key", "number").iter_rows())


@pytest.mark.parametrize("hops", [None, 3])
def test_a_map_inserted_before_a_count_takes_nothing_from_it(hops: int | None) -> None:
    assert numbers_after([(18, "behind a map")], hops=hops) == NUMBERS


def test_a_count_that_moves_back_does_not_find_the_state_that_it_had_there_before() -> None:
    story = [(10, "behind a map"), (5, "behind two maps"), (3, "alone"), (4, "behind a map")]
    assert numbers_after(story, hops=3) == NUMBERS
    assert numbers_after(story) == NUMBERS


@settings(max_examples=100, deadline=None, database=None)
@given(
    story=st.lists(st.tuples(st.integers(1, 9), st.sampled_from(SHAPES)), max_size=6),
    hops=st.sampled_from([None, 3, 5]),
    keep_decoded=st.booleans(),
)
def test_no_story_of_changes_loses_or_repeats_a_number(
    story: list[tuple[int, str]], hops: int | None, keep_decoded: bool
) -> None:
    assert numbers_after(story, hops=hops, keep_decoded=keep_decoded) == NUMBERS


def test_a_node_that_was_removed_and_comes_back_begins_anew() -> None:
    run = ReferenceRun(topology("before another count"))
    run.step(Epoch(10))
    run.change(topology("alone"))
    run.step(Epoch(10))
    run.change(topology("before another count"))
    run.drain()
    first = run.result()["others"].filter(pl.col("number") == 1)
    assert first.height == 2 * 5


def test_the_plan_says_which_state_moves() -> None:
    run = ReferenceRun(topology("alone"))
    change = run.change(topology("behind a map"))
    assert change.moved == (("count", 1, 2),)
    assert "  > count: state moves from hop 1 to hop 2" in str(change).splitlines()
    assert change.lost == ()


@pytest.mark.parametrize("parallelism", [1, 2, 4, 5])
def test_slices_that_a_node_has_no_longer_are_freed_with_its_state(parallelism: int) -> None:
    def counting(parallelism: int) -> ps.Topology:
        top = ps.Topology("fewer")
        counted = source(top).key_by("key").process("count", Numbered(), parallelism=parallelism)
        counted.sink("out", ps.Collect())
        return top

    run = ReferenceRun(counting(4))
    run.step(Epoch(18))
    run.change(counting(parallelism), allow_state_loss=True)
    run.drain(Epoch(7))
    left = {slice_ for (_, _, slice_), shelf in run._shelves.items() if shelf.head() is not None}
    assert left, "there is state"
    assert max(left) < parallelism
    assert run.result()["out"].height == ROWS
