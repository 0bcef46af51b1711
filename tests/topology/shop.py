"""A small shop: the topology that the tests of this folder describe, compare, write and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import penstock as ps

if TYPE_CHECKING:
    import polars as pl

ORDERS = {"user": str, "amount": float}
RATE = 1.25


def make_orders(first: int, count: int) -> pl.DataFrame:
    import polars as pl

    numbers = range(first, first + count)
    return pl.DataFrame({"user": [f"u{n % 3}" for n in numbers], "amount": [float(n) for n in numbers]})


def convert(amounts: Any) -> Any:
    return amounts * RATE


def in_euros(df: pl.DataFrame) -> pl.DataFrame:
    return df.with_columns(amount=convert(df["amount"]))


def is_paid(df: pl.DataFrame) -> pl.Series:
    return df["amount"] > 0


class Totals(ps.Operator):
    """Sums per user; large orders also go to an output of their own."""

    returns = {"user": str, "total": float}
    outputs = {"large": ORDERS}

    def __init__(self, limit: float = 100.0) -> None:
        self.limit = limit

    def init_state(self) -> dict[str, float]:
        return {}

    def process(self, batch: pl.DataFrame, state: dict[str, float], emit: Any) -> None:
        import polars as pl

        for user, amount in batch.select("user", "amount").iter_rows():
            state[user] = state.get(user, 0.0) + amount
        users = batch["user"].unique(maintain_order=True)
        emit(pl.DataFrame({"user": users, "total": [state[user] for user in users]}))
        emit.to("large", batch.filter(pl.col("amount") > self.limit))


def topology(limit: float = 100.0) -> ps.Topology:
    """Source, stateless nodes, a keyed node with two outputs, a side input, two sinks."""
    top = ps.Topology("shop")
    orders = top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=10), rows_per_epoch=4)
    refunds = top.source("refunds", ps.Generator(make_orders, schema=ORDERS, rows=2))
    paid = orders.filter("paid", is_paid).map("euros", in_euros)
    both = paid.union("both", refunds)
    totals = both.key_by("user").process("totals", Totals(limit), also={"rules": refunds.broadcast()})
    totals.sink("table", ps.Delta("out/totals"))
    totals.output("large").sink("alarms", ps.Collect())
    return top
