"""Requests, bytes and errors of each method."""

from __future__ import annotations

import polars as pl

import penstock as ps
from penstock.operators.operator import Emit

SUMS = ("requests", "bytes", "errors", "invalid")


class MethodTotals(ps.Operator):
    """Keep totals per method and emit those that changed. ``invalid`` requests were answered 400."""

    returns = {"method": str, **dict.fromkeys(SUMS, int)}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable({"method": str}, dict.fromkeys(SUMS, int))

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Emit) -> None:
        rows = state.rows(batch)
        for name in SUMS:
            state.add(name, rows, batch[name])
        emit(state.frame(state.changed()))
