"""A topology in words, as a picture, and the difference between two."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from tests.topology import shop

import penstock as ps
from penstock.topology import specs
from penstock.topology.routes import words

GOLDENS = Path(__file__).parent / "goldens" / "shop"
"""What tests/topology/shop.py looks like; read each change of these files as a user would."""


def without_lines(text: str) -> str:
    """Line numbers move with every edit of the file that declares the topology."""
    return re.sub(r"\.py:\d+", ".py:N", text)


def test_describe_has_a_line_per_node_with_what_it_does_takes_and_where_it_was_declared() -> None:
    assert without_lines(shop.topology().describe()) == (GOLDENS / "describe.txt").read_text().rstrip("\n")


def test_mermaid_draws_sources_sinks_routes_and_named_outputs() -> None:
    assert shop.topology().mermaid() == (GOLDENS / "mermaid.txt").read_text().rstrip("\n")


def test_words_for_functions_expressions_and_wrapped_functions_are_short() -> None:
    def local(df: pl.DataFrame) -> pl.DataFrame:
        return df

    assert words(shop.in_euros) == "in_euros"
    assert words(local) == "local"
    assert words(lambda df: df) == "λ"
    assert words(pl.col("a") > 1) == '[(col("a")) > (1)]'
    assert words(ps.per_event(shop.in_euros)) == "in_euros"


def test_a_topology_with_something_that_is_no_source_can_still_be_described() -> None:
    top = ps.Topology("t")
    top.source("numbers", [1, 2]).apply("out", specs.SinkSpec(5))
    assert "source list" in top.describe()
    assert "sink int" in top.describe()


def test_equal_topologies_have_no_difference() -> None:
    difference = shop.topology().diff(shop.topology())
    assert not difference
    assert str(difference) == "no difference"


def variant(**changes: object) -> ps.Topology:
    top = ps.Topology("t")
    rows = top.source("orders", ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=10))
    if changes.get("kind") == "flat_map":
        node = rows.flat_map("step", shop.in_euros)
    else:
        node = rows.map(
            "step", changes.get("function", shop.in_euros), on_error=changes.get("on_error", "stop")
        )  # type: ignore[arg-type]
    keyed = node.partition_by(changes.get("by", lambda df: df["amount"] % 2))  # type: ignore[arg-type]
    keyed = node.key_by(str(changes["key"])) if "key" in changes else keyed
    totals = keyed.process("totals", shop.Totals(), parallelism=changes.get("parallelism", 5))  # type: ignore[arg-type]
    if changes.get("extra"):
        rows.map("extra", shop.in_euros).sink("more", ps.Collect())
    totals.sink("table", ps.Collect())
    return top


def test_diff_says_what_was_added_and_removed() -> None:
    assert str(variant().diff(variant(extra=True))) == "+ extra\n+ more"
    assert str(variant(extra=True).diff(variant())) == "- extra\n- more"


def test_diff_says_what_is_different_about_a_node() -> None:
    base = variant()
    assert base.diff(variant(function=lambda df: df)).changed == (("step", "logic or parameters"),)
    assert base.diff(variant(kind="flat_map")).changed == (("step", "map → flat_map"),)
    assert base.diff(variant(on_error="dead-letter")).changed == (("step", "on_error stop → dead-letter"),)
    assert base.diff(variant(parallelism=6)).changed == (("totals", "parallelism 5 → 6"),)
    assert base.diff(variant(key="user")).changed == (("totals", "inputs or routing"),)


def test_diff_sees_another_partition_function_of_the_same_name() -> None:
    assert variant().diff(variant(by=lambda df: df["amount"] % 3)).changed == (("totals", "routing"),)
