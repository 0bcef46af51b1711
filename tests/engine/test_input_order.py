"""A node takes its inputs in the order in which they were declared, whatever the sources are called."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.testing import Epoch, ReferenceRun

N = {"n": int}


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + count)})


class Known(ps.Operator):
    """Orders of users that have signed up; the example of the guide."""

    returns = N

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key=N, values={"known": bool})

    def process_input(self, name: str, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        if name == "sign-ups":
            state.last("known", state.rows(batch), [True] * batch.height)
        else:
            emit(batch.filter(state.find(batch.select("n")) >= 0))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        raise NotImplementedError


class Journal(ps.Operator):
    """Emits what it takes: the input's name and the rows."""

    returns = {"input": str, "n": int}

    def init_state(self) -> None:
        return None

    def process_input(self, name: str, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(batch.select(pl.lit(name).alias("input"), "n"))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        raise NotImplementedError


def tens(ten: int) -> ps.Generator:
    return ps.Generator(lambda first, count: numbers(10 * ten + first, count), schema=N, rows=3)


@pytest.mark.parametrize(("orders", "signups"), [("orders", "sign-ups"), ("orders", "a-sign-ups")])
def test_known_users_are_known_whatever_the_sources_are_called(orders: str, signups: str) -> None:
    top = ps.Topology("known")
    some = top.source(orders, ps.Generator(numbers, schema=N, rows=10))
    users = top.source(signups, ps.Generator(numbers, schema=N, rows=4))
    known = some.key_by("n").process("known", Known(), also={"sign-ups": users.key_by("n")}, parallelism=3)
    known.sink("out", ps.Collect())
    run = ReferenceRun(top, seed=5)
    run.step()
    assert sorted(run.result()["out"]["n"]) == [0, 1, 2, 3]


def journal(names: Sequence[str], *, splits: int = 1, seed: int = 0) -> list[tuple[str, int]]:
    """What a node takes of two main streams and two further inputs, whose sources have these names."""
    top = ps.Topology("t")
    first, second, rules, table = (top.source(name, tens(ten)) for ten, name in enumerate(names))
    main = second.union("main", first)
    also = {"z-rules": rules.to_one(), "a-table": table.to_one()}
    main.to_one().process("node", Journal(), also=also).sink("out", ps.Collect())
    run = ReferenceRun(top, seed=seed)
    run.step(Epoch(splits=splits))
    rows: list[tuple[str, int]] = run.result()["out"].rows()
    return rows


def test_side_inputs_come_first_and_all_in_the_order_of_their_declaration() -> None:
    expected = [("z-rules", n) for n in (20, 21, 22)] + [("a-table", n) for n in (30, 31, 32)]
    expected += [("in", n) for n in (0, 1, 2, 10, 11, 12)]
    for names in permutations(("a", "b", "c", "d")):
        assert journal(names, splits=2, seed=len(names)) == expected


def test_the_order_of_senders_behind_an_exchange_is_that_of_their_declaration() -> None:
    for names in (("a", "b"), ("b", "a")):
        top = ps.Topology("t")
        source = top.source("s", tens(0))
        parts = [
            source.key_by("n")
            .process(name, Journal(), parallelism=3)
            .filter(f"only-{name}", pl.col("n") == n)
            for n, name in enumerate(names)
        ]
        both = parts[1].union("both", parts[0])
        both.to_one().process("last", Journal()).sink("out", ps.Collect())
        run = ReferenceRun(top, seed=1)
        run.step()
        assert run.result()["out"]["n"].to_list() == [0, 1]
