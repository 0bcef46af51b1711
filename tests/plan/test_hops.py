"""Where nodes are placed: exchanges in front of each, what is fused, and the plan in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.plan.test_passes import Echo, rows
from tests.topology import shop

import penstock as ps
from penstock.plan import explain, plan

GOLDENS = Path(__file__).parent / "goldens"


def depths(top: ps.Topology) -> dict[str, int]:
    return dict(plan(top).depth)


def same(df: pl.DataFrame) -> pl.DataFrame:
    return df


def test_a_chain_has_one_hop_per_exchange() -> None:
    top = ps.Topology("t")
    one = rows(top).map("m", same).key_by("user").process("one", Echo())
    one.map("between", same).shuffle().map("two", same, parallelism=2).to_one().process("three", Echo()).sink(
        "out", ps.Collect()
    )
    assert depths(top) == {"rows": 0, "m": 0, "one": 1, "between": 1, "two": 2, "three": 3, "out": 3}
    assert plan(top).hops == 3


def test_the_arms_of_a_diamond_share_a_hop_and_meet_in_the_next() -> None:
    top = ps.Topology("t")
    source = rows(top)
    left, right = (source.key_by("user").process(name, Echo()) for name in ("left", "right"))
    left.key_by("user").process("join", Echo(), also={"side": right.key_by("user")}).sink("out", ps.Collect())
    assert depths(top) == {"rows": 0, "left": 1, "right": 1, "join": 2, "out": 2}


def test_a_union_of_different_depths_counts_as_its_deepest() -> None:
    top = ps.Topology("t")
    source = rows(top)
    deep = source.key_by("user").process("a", Echo()).key_by("user").process("b", Echo())
    union = source.union("u", deep)
    union.sink("raw", ps.Collect())
    union.key_by("user").process("c", Echo()).sink("out", ps.Collect())
    assert depths(top) == {"rows": 0, "a": 1, "b": 2, "u": 2, "raw": 2, "c": 3, "out": 3}
    program = plan(top)
    assert program.is_fused(program.graph["u"])


def test_a_routed_union_is_hosted() -> None:
    top = ps.Topology("t")
    source = rows(top)
    source.shuffle().union("u", source.map("m", same).shuffle()).sink("out", ps.Collect())
    program = plan(top)
    assert list(program.hosted) == ["u"]
    assert not program.is_fused(program.graph["u"])
    assert program.depth["u"] == 1


def test_a_broadcast_side_input_waits_for_no_more_hops_than_it_needs() -> None:
    top = ps.Topology("t")
    rules = rows(top, "rules")
    totals = rows(top).key_by("user").process("totals", Echo())
    totals.key_by("user").process("checked", Echo(), also={"rules": rules.broadcast()}).sink(
        "out", ps.Collect()
    )
    assert depths(top) == {"rules": 0, "rows": 0, "totals": 1, "checked": 2, "out": 2}


def test_a_spark_dataframe_stays_where_its_input_is() -> None:
    top = ps.Topology("t")
    totals = rows(top).key_by("user").process("totals", Echo())
    native = totals.dataframe("sql", same, returns={"user": str})
    native.key_by("user").process("after", Echo()).sink("out", ps.Collect())
    program = plan(top)
    assert program.depth == {"rows": 0, "totals": 1, "sql": 1, "after": 2, "out": 2}
    assert [node.name for node in program.natives] == ["sql"]


def test_only_nodes_that_ask_for_it_are_punctuated() -> None:
    class Waits(Echo):
        def on_punctuation(self, time: object, state: object, emit: object) -> None: ...

    top = ps.Topology("t")
    rows(top).to_one().process("waits", Waits()).to_one().process("echo", Echo()).sink("out", ps.Collect())
    assert [node.name for node in plan(top).punctuated] == ["waits"]


def test_explain_tells_stages_hops_and_where_state_lives() -> None:
    """The topology is tests/topology/shop.py."""
    assert explain(shop.topology(), partitions=4) == (GOLDENS / "shop.txt").read_text().rstrip("\n")


def test_explain_tells_fused_unions_native_nodes_and_spare_hops() -> None:
    """Fused behind two sources, a node without state, a Spark DataFrame, one exchange more than needed."""
    top = ps.Topology("wide")
    one = top.source("one", ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=10), rows_per_epoch=5)
    two = top.source(
        "two", ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=10), bytes_per_epoch=1 << 20
    )
    both = one.union("both", two.map("euros", shop.in_euros))
    spread = both.map("spread", shop.in_euros, parallelism=4)
    spread.dataframe("sql", shop.in_euros, returns={"user": str}).sink("users", ps.Collect())
    both.sink("raw", ps.Collect())
    assert explain(top, hops=2) == (GOLDENS / "wide.txt").read_text().rstrip("\n")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, "per epoch: at most 268,435,456 bytes"),
        ({"rows_per_epoch": 7}, "per epoch: at most 7 rows]"),
        ({"bytes_per_epoch": 9}, "per epoch: at most 9 bytes"),
        ({"rows_per_epoch": 7, "bytes_per_epoch": 9}, "per epoch: at most 7 rows or 9 bytes"),
        ({"rows_per_epoch": 7, "bytes_per_epoch": None}, "per epoch: at most 7 rows]"),
        ({"bytes_per_epoch": None}, "per epoch: all there is, however much"),
    ],
)
def test_explain_tells_what_one_epoch_takes(options: dict[str, Any], shown: str) -> None:
    top = ps.Topology("t")
    source = ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=10)
    top.source("orders", source, **options).sink("out", ps.Collect())
    assert shown in explain(top)


def test_sinks_wait_for_what_leaves_any_hop_but_the_last() -> None:
    top = ps.Topology("t")
    one = rows(top).key_by("user").process("one", Echo())
    one.sink("early", ps.Collect())
    one.key_by("user").process("two", Echo()).sink("late", ps.Collect())
    program = plan(top)
    assert [program.waiting_sinks(hop) for hop in range(3)] == [{"early", "late"}, {"early", "late"}, set()]
