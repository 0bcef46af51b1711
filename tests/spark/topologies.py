"""Topologies that several tests of this tier share."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import penstock as ps

ORDERS = {"user": str, "amount": float}


def make_orders(first: int, count: int) -> pl.DataFrame:
    n = np.arange(first, first + count)
    return pl.DataFrame({"user": pl.Series([f"user-{i * 7919 % 211}" for i in n]), "amount": (n % 97) / 4})


class Totals(ps.Operator):
    """Per user: number and sum of the orders; says what is new after each batch."""

    returns = {"user": str, "orders": int, "total": float}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"user": str}, values={"orders": int, "total": float})

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        rows = state.rows(batch.select("user"))
        state.count("orders", rows)
        state.add("total", rows, batch["amount"])
        emit(state.frame(state.changed()))


def totals_topology(*sinks: Any, rows: int, rows_per_epoch: int = 1_000, factor: float = 1.0) -> ps.Topology:
    """Orders → totals per user → each of the sinks, named by its kind."""
    top = ps.Topology("totals")
    orders = top.source(
        "orders", ps.Generator(make_orders, schema=ORDERS, rows=rows), rows_per_epoch=rows_per_epoch
    )
    priced = orders.map("priced", lambda df: df.with_columns(pl.col("amount") * factor))
    totals = priced.key_by("user").process("totals", Totals())
    for sink in sinks:
        totals.sink({"ParquetFiles": "parquet"}.get(type(sink).__name__, type(sink).__name__.lower()), sink)
    return top
