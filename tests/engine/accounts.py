"""One behaviour in every way that a state can be kept: amounts per account, which can be closed.

The tests of this folder run the same story over all of them and compare with a plain dict.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

import penstock as ps

Model = dict[int, int]
COLUMNS = {"account": int, "amount": int, "close": bool}
TOTALS = {"account": int, "total": int}


def batch(changes: list[tuple[int, int, bool]]) -> pl.DataFrame:
    """Changes as rows: account, amount, whether the account is closed afterwards."""
    return pl.DataFrame(
        changes, schema={"account": pl.Int64, "amount": pl.Int64, "close": pl.Boolean}, orient="row"
    )


def expected(model: Model, changes: list[tuple[int, int, bool]]) -> Model:
    """The same on a dict."""
    after = dict(model)
    for account, amount, _ in changes:
        after[account] = after.get(account, 0) + amount
    for account, _, close in changes:
        if close:
            after.pop(account, None)
    return after


class Accounts(ps.Operator):
    """What they have in common. ``salt`` is a parameter that changes nothing but the logic's fingerprint."""

    returns = TOTALS

    def __init__(self, salt: int = 0) -> None:
        self.salt = salt

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
        after = expected(self.view(state), list(batch.iter_rows()))
        self.store(state, after)
        touched = [account for account in batch["account"].unique(maintain_order=True) if account in after]
        emit(pl.DataFrame({"account": touched, "total": [after[a] for a in touched]}, schema=TOTALS))

    def view(self, state: Any) -> Model:
        """The state as a dict."""
        raise NotImplementedError

    def store(self, state: Any, model: Model) -> None:
        """Change the state to be this."""
        raise NotImplementedError


class Table(Accounts):
    """A KeyedTable."""

    value = "total"

    def init_state(self) -> Any:
        return ps.KeyedTable({"account": int}, {self.value: int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
        if not batch.height:
            return
        rows = state.rows(batch.select("account"))
        state.add(self.value, rows, batch["amount"].to_numpy())
        closed = batch.filter(pl.col("close")).select("account")
        if closed.height:
            state.remove(state.find(closed))
        kept = batch.select(pl.col("account").unique(maintain_order=True))
        found = state.find(kept)
        emit(state.frame(found[found >= 0]).rename({self.value: "total"}))

    def view(self, state: Any) -> Model:
        return dict(state.frame().select("account", self.value).iter_rows())


class Table2(Table):
    """Another layout: the value has another name."""

    state_version = 2
    value = "sum"

    def migrate_state(self, blob: pl.DataFrame, from_version: int) -> Any:
        assert from_version == 1
        state = self.init_state()
        state.last(self.value, state.rows(blob.select("account")), blob["total"].to_numpy())
        return state


class Tables(Table):
    """A dict of KeyedTables: even and odd accounts."""

    def init_state(self) -> Any:
        return {"even": super().init_state(), "odd": super().init_state()}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
        super().process(batch.filter(pl.col("account") % 2 == 0), state["even"], emit)
        super().process(batch.filter(pl.col("account") % 2 != 0), state["odd"], emit)

    def view(self, state: Any) -> Model:
        return {**super().view(state["even"]), **super().view(state["odd"])}


class Tables2(Tables):
    """The same, under a new layout."""

    state_version = 2

    def migrate_state(self, blob: dict[str, pl.DataFrame], from_version: int) -> Any:
        state = self.init_state()
        for name, rows in blob.items():
            state[name].last("total", state[name].rows(rows.select("account")), rows["total"].to_numpy())
        return state


class Plain(Accounts):
    """A dict, pickled as a whole."""

    def init_state(self) -> Any:
        return {}

    def view(self, state: Any) -> Model:
        return dict(state)

    def store(self, state: Any, model: Model) -> None:
        state.clear()
        state.update(model)


class Plain2(Plain):
    """The dict lies one level deeper."""

    state_version = 2

    def init_state(self) -> Any:
        return {"deep": {}}

    def view(self, state: Any) -> Model:
        return dict(state["deep"])

    def store(self, state: Any, model: Model) -> None:
        state["deep"] = dict(model)

    def migrate_state(self, blob: Model, from_version: int) -> Any:
        return {"deep": dict(blob)}


class Returned(Plain):
    """Never changes a state: returns a new one."""

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
        after = dict(state)
        super().process(batch, after, emit)
        return after


class Whole(Plain):
    """The operator's own bytes."""

    def export_state(self, state: Any) -> bytes:
        return json.dumps(sorted(state.items())).encode()

    def import_state(self, blob: bytes) -> Any:
        return dict(map(tuple, json.loads(blob)))  # type: ignore[arg-type]


class Whole2(Whole):
    """The same bytes, read by another layout."""

    state_version = 2

    def migrate_state(self, blob: bytes, from_version: int) -> Any:
        return self.import_state(blob)


class Chunks(Accounts):
    """Four chunks of the operator's own, of which only the changed ones are exported."""

    def init_state(self) -> Any:
        return {"chunks": {}, "dirty": set()}

    def view(self, state: Any) -> Model:
        return {account: total for chunk in state["chunks"].values() for account, total in chunk.items()}

    def store(self, state: Any, model: Model) -> None:
        for name in map(str, range(4)):
            chunk = {account: total for account, total in model.items() if account % 4 == int(name)}
            if chunk != state["chunks"].get(name, {}):
                state["chunks"][name] = chunk
                state["dirty"].add(name)

    def export_state(self, state: Any) -> dict[str, bytes | None]:
        made = {n: _json(state["chunks"][n]) if state["chunks"][n] else None for n in sorted(state["dirty"])}
        state["dirty"].clear()
        return made

    def import_state(self, blob: dict[str, bytes]) -> Any:
        chunks = {name: dict(map(tuple, json.loads(chunk))) for name, chunk in blob.items()}  # type: ignore[arg-type]
        return {"chunks": chunks, "dirty": set()}


class Chunks2(Chunks):
    """The same chunks under a new layout; after a migration all of them are new."""

    state_version = 2

    def migrate_state(self, blob: dict[str, bytes], from_version: int) -> Any:
        state = self.import_state(blob)
        return {**state, "dirty": set(state["chunks"])}


WAYS: dict[str, tuple[type[Accounts], type[Accounts]]] = {
    "table": (Table, Table2),
    "tables": (Tables, Tables2),
    "plain": (Plain, Plain2),
    "returned": (Returned, Plain2),
    "whole": (Whole, Whole2),
    "chunks": (Chunks, Chunks2),
}
"""Each way with an operator of another layout that takes its state over."""


def _json(chunk: Model) -> bytes:
    return json.dumps(sorted(chunk.items())).encode()
