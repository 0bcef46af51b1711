"""Numba kernels that change values by row number and mark the rows as changed."""

from __future__ import annotations

from penstock.frames._jit import Column, bounded, kernel
from penstock.operators._keyed_kernels import CHANGED, marked


@bounded("len(counters) > CHANGED and len(mark) == len(changed)")
@kernel
def touch(rows: Column, mark: Column, changed: Column, counters: Column) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values)")
@kernel
def count(values: Column, rows: Column, mark: Column, changed: Column, counters: Column) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        values[rows[i]] += 1
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def add(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        values[rows[i]] += amounts[i]
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def maximum(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        if amounts[i] > values[rows[i]]:
            values[rows[i]] = amounts[i]
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def minimum(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        if amounts[i] < values[rows[i]]:
            values[rows[i]] = amounts[i]
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def last(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        values[rows[i]] = amounts[i]
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known
