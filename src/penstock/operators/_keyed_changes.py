"""Numba kernels that change values by row number and mark the rows as changed."""

from __future__ import annotations

from penstock.frames._jit import Column, kernel
from penstock.operators._keyed_kernels import mark_row


@kernel
def touch(rows: Column, mark: Column, changed: Column, counters: Column) -> None:
    for i in range(len(rows)):
        mark_row(rows[i], mark, changed, counters)


@kernel
def count(values: Column, rows: Column, mark: Column, changed: Column, counters: Column) -> None:
    for i in range(len(rows)):
        values[rows[i]] += 1
        mark_row(rows[i], mark, changed, counters)


@kernel
def add(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    for i in range(len(rows)):
        values[rows[i]] += amounts[i]
        mark_row(rows[i], mark, changed, counters)


@kernel
def maximum(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    for i in range(len(rows)):
        if amounts[i] > values[rows[i]]:
            values[rows[i]] = amounts[i]
        mark_row(rows[i], mark, changed, counters)


@kernel
def minimum(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    for i in range(len(rows)):
        if amounts[i] < values[rows[i]]:
            values[rows[i]] = amounts[i]
        mark_row(rows[i], mark, changed, counters)


@kernel
def last(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> None:
    for i in range(len(rows)):
        values[rows[i]] = amounts[i]
        mark_row(rows[i], mark, changed, counters)
