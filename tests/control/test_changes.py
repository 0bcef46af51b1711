"""What becomes of each node when a running topology changes; the plan is printed before it is applied."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tests.topology import shop

import penstock as ps
from penstock.control.changes import ChangePlan, plan_change, require_applicable
from penstock.errors import BadChange
from penstock.plan import plan
from penstock.plan.program import Program


class Echo(ps.Operator):
    def __init__(self, parameter: int = 0) -> None:
        self.parameter = parameter

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(batch)


class Echo2(Echo):
    state_version = 2


class Migrates(Echo2):
    def migrate_state(self, blob: Any, from_version: int) -> Any:
        return blob


class Exports(Echo):
    def export_state(self, state: Any) -> bytes:
        return b""

    def import_state(self, blob: Any) -> Any:
        return None


def program(
    operator: Any = None, *, route: Any = None, parallelism: int | None = None, also: bool = False,
    after: Any = None, name: str = "shop", keep: float = 0.0,
) -> Program:  # fmt: skip
    """orders → paid → p → out, with variations."""
    top = ps.Topology(name)
    orders = top.source("orders", ps.Generator(shop.make_orders, schema=shop.ORDERS))
    paid = orders.filter("paid", pl.col("amount") > keep)
    routed = (route or (lambda s: s.key_by("user")))(paid)
    side = {"rules": orders.broadcast()} if also else None
    made = routed.process("p", operator or Echo(), also=side, parallelism=parallelism)
    (after(made) if after else made).sink("out", ps.Collect())
    return plan(top)


def change(running: Program, desired: Program, **options: Any) -> ChangePlan:
    return plan_change(running, desired, version=2, **options)


def test_equal_topologies_change_nothing() -> None:
    found = change(program(), program())
    assert not found
    assert found.kept == ("orders", "paid", "p", "out")
    assert str(found) == "version 2: keep 4"
    require_applicable(found, allow_state_loss=False)


def test_other_logic_and_parameters_are_swapped_and_the_state_stays() -> None:
    found = change(program(Echo(1), keep=1.0), program(Echo(2), keep=2.0))
    assert found.swapped == (("paid", "logic or parameters"), ("p", "logic or parameters"))
    assert found.lost == ()
    assert found.program.born == {"p": 0}


def test_added_and_removed_nodes_are_told() -> None:
    mapped = program(after=lambda s: s.map("euros", shop.in_euros))
    added = change(program(), mapped)
    assert (added.added, added.swapped) == (("euros",), (("out", "inputs or routing"),))
    removed = change(mapped, program())
    assert (removed.removed, removed.lost) == (("euros",), ())
    require_applicable(removed, allow_state_loss=False)


@pytest.mark.parametrize(
    ("running", "desired", "why"),
    [
        ({}, {"parallelism": 60}, "120 slices become 60"),
        ({}, {"route": lambda s: s.key_by("amount")}, "its rows are routed by other keys"),
        ({}, {"route": lambda s: s.shuffle(), "parallelism": 120}, "its rows are routed by other keys"),
        (
            {"route": lambda s: s.partition_by(lambda df: df["amount"] % 2), "parallelism": 2},
            {"route": lambda s: s.partition_by(lambda df: df["amount"] % 3), "parallelism": 2},
            "its rows are routed by other keys",
        ),
        ({}, {"operator": Echo2()}, "state version 1 becomes 2 and there is no migrate_state"),
        ({}, {"operator": Exports()}, "its state is exported in another way and there is no migrate_state"),
    ],
)
def test_state_that_cannot_be_kept_is_lost_only_if_asked_for(running: Any, desired: Any, why: str) -> None:
    found = change(program(**running), program(**desired))
    assert found.lost == (("p", why),)
    assert "p" not in dict(found.swapped)
    assert "p" not in found.kept
    assert found.program.born == {"p": 2}
    with pytest.raises(BadChange) as caught:
        require_applicable(found, allow_state_loss=False)
    assert caught.value.condition == "BAD_CHANGE"
    assert why in caught.value.parameters["reason"]
    require_applicable(found, allow_state_loss=True)


@pytest.mark.parametrize(
    ("running", "desired"),
    [
        ({}, {"operator": Migrates()}),
        ({}, {"also": True}),
        ({"also": True}, {}),
        ({"route": lambda s: s.shuffle(weights=(1, 2))}, {"route": lambda s: s.shuffle(weights=(2, 1))}),
        ({}, {"route": lambda s: s.map("m", shop.in_euros).key_by("user")}),
    ],
)
def test_state_stays_where_its_keys_stay(running: Any, desired: Any) -> None:
    found = change(program(**running), program(**desired))
    assert found.lost == ()
    assert "p" in dict(found.swapped)
    assert found.program.born == {"p": 0}


def test_removing_a_node_is_asking_for_the_loss_of_its_state() -> None:
    two = program(after=lambda s: s.key_by("user").process("second", Echo()))
    found = change(two, program())
    assert (found.removed, found.lost) == (("second",), (("second", "the node is removed"),))
    require_applicable(found, allow_state_loss=False)


def test_a_node_that_becomes_another_kind_loses_its_state() -> None:
    two = program(after=lambda s: s.key_by("user").process("x", Echo()))
    mapped = program(after=lambda s: s.key_by("user").map("x", shop.in_euros))
    assert change(two, mapped).lost == (("x", "the node becomes map"),)
    assert change(mapped, two).lost == ()


def test_a_node_that_comes_back_begins_anew() -> None:
    with_second = program(after=lambda s: s.key_by("user").process("second", Echo()))
    first = plan_change(with_second, program(), version=2)
    again = plan_change(first.program, with_second, version=3)
    kept = plan_change(again.program, with_second, version=4)
    assert again.program.born == {"p": 0, "second": 3}
    assert kept.program.born == {"p": 0, "second": 3}


def test_a_change_that_needs_more_exchanges_than_there_are_is_refused() -> None:
    deeper = program(after=lambda s: s.key_by("user").process("second", Echo()))
    refused = change(program(), deeper)
    assert refused.refused is not None
    with pytest.raises(BadChange) as caught:
        require_applicable(refused, allow_state_loss=True)
    assert caught.value.parameters["topology"] == "shop"
    assert "hops=2" in caught.value.parameters["reason"]
    assert change(program(), deeper, hops=2).refused is None
    assert change(deeper, program()).refused is None


def test_another_name_or_other_spark_dataframes_are_refused() -> None:
    def sql(function: Any) -> Program:
        return program(after=lambda s: s.dataframe("sql", function, returns={"user": str}))

    assert change(program(), program(name="other")).refused is not None
    assert change(program(), sql(len)).refused is not None
    assert change(sql(len), sql(repr)).refused is not None
    assert change(sql(len), sql(len)).refused is None


def test_the_plan_is_printed_as_people_read_it() -> None:
    running = program(after=lambda s: s.key_by("user").process("old", Echo()), keep=1.0)
    desired = program(Echo2(), after=lambda s: s.key_by("user").process("new", Echo()), keep=2.0, name="x")
    assert str(change(running, desired)) == (
        "version 2: keep 1, add 1, swap 2 (state kept), remove 1, state LOST: 2\n"
        "  + new\n"
        "  ~ paid: logic or parameters\n"
        "  ~ out: inputs or routing\n"
        "  - old\n"
        "  ! p: state LOST (state version 1 becomes 2 and there is no migrate_state)\n"
        "  ! old: state LOST (the node is removed)\n"
        "    to keep a copy of this state, take a savepoint first: penstock savepoint create\n"
        "  refused: it is named 'shop' and the new one 'x'"
    )
