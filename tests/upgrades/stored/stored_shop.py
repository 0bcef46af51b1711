"""The app of the stored runs. Every way to save state is in it; the stored runs end if a line changes here.

The sums are known from the numbers of the events alone (see ``expected`` in ``tests.upgrades.shop``).
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

import penstock as ps

ROWS = 10_000
ROWS_PER_EPOCH = 1_000
USERS = 7
START_US = 1_760_000_000_000_000
CHEAPEST = 3


def make_orders(first: int, count: int) -> pl.DataFrame:
    n = np.arange(first, first + count)
    time = pl.Series(START_US + n * 100_000).cast(pl.Datetime("us"))
    return pl.DataFrame({"user": [f"user-{i % USERS}" for i in n], "amount": n % 10, "time": time})


def scaled(factor: int) -> Any:
    return lambda df: df.with_columns(pl.col("amount") * factor)


class Totals(ps.Operator):
    """A KeyedTable: the state is a log of changes."""

    returns = {"user": str, "orders": int, "total": int}

    def init_state(self) -> Any:
        return ps.KeyedTable(key={"user": str}, values={"orders": int, "total": int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch.select("user"))
        state.count("orders", rows)
        state.add("total", rows, batch["amount"])
        emit(state.frame(state.changed()))


@dataclass
class Visits:
    """An object of the app's own class, with a method."""

    count: int = 0
    days: set[int] = field(default_factory=set)

    def add(self, amount: int) -> int:
        self.count += 1
        self.days.add(amount)
        return self.count


class Visitors(ps.Operator):
    """Pickled state: a dict that makes objects of the app's own class by a lambda."""

    returns = {"user": str, "visits": int, "kinds": int}

    def __init__(self, step: int) -> None:
        self.step = step

    def init_state(self) -> Any:
        return {"by_user": defaultdict(lambda: Visits()), "seen": 0}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
        for user, amount in batch.select("user", "amount").iter_rows():
            state["by_user"][user].add(amount)
            state["seen"] += self.step
        users = sorted(set(batch["user"]))
        found = [state["by_user"][user] for user in users]
        counts, kinds = [v.count for v in found], [len(v.days) for v in found]
        emit(pl.DataFrame({"user": users, "visits": counts, "kinds": kinds}))
        return state


class Ledger(ps.Operator):
    """State that exports itself."""

    returns = {"user": str, "balance": int}

    def init_state(self) -> Any:
        return {}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
        for user, amount in batch.select("user", "amount").iter_rows():
            state[user] = state.get(user, 0) + amount
        users = sorted(set(batch["user"]))
        emit(pl.DataFrame({"user": users, "balance": [state[user] for user in users]}))
        return state

    def export_state(self, state: Any) -> bytes:
        return json.dumps(state).encode()

    def import_state(self, blob: Any) -> Any:
        return json.loads(blob)


top = ps.Topology("stored-shop")
generated = ps.Generator(
    make_orders,
    schema={"user": str, "amount": int, "time": "timestamp"},
    rows=ROWS,
    time="time",
    time_of=lambda n: START_US + n * 100_000,
)
orders = top.source("orders", generated, rows_per_epoch=ROWS_PER_EPOCH)
large = orders.filter("large", pl.col("amount") >= CHEAPEST).map("doubled", scaled(2))
large.key_by("user").process("totals", Totals(), parallelism=4).sink("out-totals", ps.Collect())
large.key_by("user").process("visitors", Visitors(1), parallelism=4).sink("out-visitors", ps.Collect())
large.key_by("user").process("ledger", Ledger(), parallelism=2).sink("out-ledger", ps.Collect())
large.aggregate(
    "minutes", by="user", window=ps.tumbling("3m"), orders=ps.count(), amount=ps.sum("amount"), parallelism=4
).sink("out-minutes", ps.Collect())
