"""The demo: a web shop's clicks; orders scored per customer, summed up per region.

Copy it as the start of a topology of your own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import penstock as ps

CUSTOMERS = 20_000
REGIONS = ("north", "east", "south", "west")
UNUSUAL = 5.0
TABLES = ("regions", "unusual")


class Customers(ps.Operator):
    """Say of every order how it compares with what this customer spent on earlier ones."""

    returns = {"order": int, "customer": int, "region": str, "cents": int, "usual": float, "score": float}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"customer": int}, values={"orders": int, "spent": int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch.select("customer"))
        # A batch may hold several orders of one customer: count those before each one too.
        earlier = batch.select(
            orders=pl.int_range(pl.len()).over("customer") + state["orders"][rows],
            spent=pl.col("cents").cum_sum().over("customer") - pl.col("cents") + state["spent"][rows],
        )
        state.count("orders", rows)
        state.add("spent", rows, batch["cents"])
        usual = (earlier["spent"] / earlier["orders"]).fill_nan(None)
        score = batch["cents"] / usual
        emit(batch.with_columns(usual=usual, score=score).select(*self.returns))


class Regions(ps.Operator):
    """Keep totals per region and emit those that changed."""

    returns = {"region": str, "orders": int, "revenue": int, "unusual": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"region": str}, values={"orders": int, "revenue": int, "unusual": int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch.select("region"))
        state.count("orders", rows)
        state.add("revenue", rows, batch["cents"])
        state.add("unusual", rows, (batch["score"].fill_null(0) >= UNUSUAL).cast(pl.Int64))
        emit(state.frame(state.changed()))


def topology(
    directory: Path | str = "out/demo", *, rows: int = 6_000_000, rate: int | None = 200_000
) -> ps.Topology:
    """The topology: one source, a filter, two keyed nodes, two tables."""
    top = ps.Topology("shop")
    source = ps.Generator(make_clicks, schema=CLICKS, rows=rows, rate=rate)
    clicks = top.source("clicks", source, rows_per_epoch=rate)
    orders = clicks.filter("orders", pl.col("action") == "order")
    scored = orders.key_by("customer").process("customers", Customers(), parallelism=24)
    scored.filter("unusual-orders", pl.col("score") >= UNUSUAL).sink(
        "unusual", ps.Delta(f"{directory}/unusual")
    )
    totals = scored.key_by("region").process("regions", Regions(), parallelism=24)
    totals.sink("totals", ps.Delta(f"{directory}/regions"))
    return top


CLICKS = {"order": int, "customer": int, "region": str, "action": str, "cents": int}


def make_clicks(first: int, count: int) -> pl.DataFrame:
    """Clicks number first … first+count-1; a number always gives the same click."""
    number = np.arange(first, first + count, dtype=np.int64)
    dice = _dice(number)
    customer = dice % CUSTOMERS
    is_order = dice // CUSTOMERS % 10 == 0
    cents = 500 + customer % 97 * 50 + _dice(number + 1) % 400
    cents = np.where(_dice(number + 2) % 1000 == 0, cents * 12, cents)  # the ones to find
    names = pl.Series(REGIONS)
    return pl.DataFrame(
        {
            "order": number,
            "customer": customer,
            "region": names.gather(customer % len(REGIONS)),
            "action": pl.Series(("view", "order")).gather(is_order.astype(np.int64)),
            "cents": np.where(is_order, cents, 0),
        }
    )


def _dice(number: np.ndarray) -> np.ndarray:
    """A number that looks random and is a function of the event's number alone (splitmix64)."""
    x = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)


STORY = f"""\
A web shop's clicks stream in. Orders are picked out, each is compared with what its customer
usually spends (state for {CUSTOMERS:,} customers), and totals are kept per region.
Two exchanges; every event counts exactly once, through crashes too."""


def look(directory: Path, python: str) -> str:
    """What to type to see the results."""
    totals = f"pl.read_delta('{directory}/regions').sort('orders').unique('region', keep='last')"
    return (
        f"look at the totals per region:\n"
        f'  {python} -c "import polars as pl; print({totals})"\n'
        f"orders of {UNUSUAL:.0f} times the usual and more are in {directory}/unusual; "
        f"the topology: penstock describe demo"
    )
