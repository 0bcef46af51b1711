"""A topology with records that kill the process which they are processed in."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps

SCHEMA = {"n": int, "key": int}
ROWS = 12_000
POISON = 4_321


class Brittle(ps.Operator):
    """Counts rows per key, with native code that does not bear one record."""

    returns = {"key": int, "rows": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"key": int}, values={"rows": int})

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        if (batch["n"] == POISON).any():
            ctypes.string_at(0)
        rows = state.rows(batch.select("key"))
        state.count("rows", rows)
        emit(state.frame(state.changed()))


def make(first: int, count: int) -> pl.DataFrame:
    n = pl.int_range(first, first + count, eager=True)
    return pl.DataFrame({"n": n, "key": n % 50})


def topology(folder: Path, *, on_error: Any = "dead-letter") -> ps.Topology:
    top = ps.Topology("brittle")
    source = ps.Generator(make, schema=SCHEMA, rows=ROWS)
    stream = top.source("numbers", source, rows_per_epoch=1_000)
    counted = stream.key_by("key").process("counted", Brittle(), parallelism=4, on_error=on_error)
    counted.sink("table", ps.Delta(folder / "table"))
    return top
