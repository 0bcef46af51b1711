"""Numba kernels that change values by row number and mark the rows as changed."""

from __future__ import annotations

import numpy as np

from penstock.frames._jit import Column, bounded, kernel
from penstock.operators._keyed_kernels import CHANGED, marked


@bounded("len(counters) > CHANGED and len(mark) == len(changed)")
@kernel
def touch(rows: Column, mark: Column, changed: Column, counters: Column) -> None:
    known = counters[CHANGED]
    for i in range(len(rows)):
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def add(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> int:
    """Add amounts that cannot leave the range of their type: floats. Return how many were added."""
    known = counters[CHANGED]
    for i in range(len(rows)):
        values[rows[i]] += amounts[i]
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known
    return len(rows)


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values)")
@kernel
def count(values: Column, rows: Column, most: int, mark: Column, changed: Column, counters: Column) -> int:
    """Add 1 to integers up to most. Return how often that was possible before one did not fit."""
    known = counters[CHANGED]
    done = len(rows)
    for i in range(len(rows)):
        if values[rows[i]] == most:
            done = i
            break
        values[rows[i]] += 1
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known
    return done


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def add_int64(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> int:
    """Add amounts to integers of 64 bits. Return how many were added before one did not fit."""
    known = counters[CHANGED]
    done = len(rows)
    for i in range(len(rows)):
        value = values[rows[i]]
        total = value + amounts[i]
        # They wrap round: a sum that has another sign than both of its terms is wrong.
        if ((value ^ total) & (amounts[i] ^ total)) < 0:
            done = i
            break
        values[rows[i]] = total
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known
    return done


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def add_uint64(
    values: Column, rows: Column, amounts: Column, mark: Column, changed: Column, counters: Column
) -> int:
    """Add amounts to unsigned integers of 64 bits. Return how many were added before one did not fit."""
    known = counters[CHANGED]
    done = len(rows)
    for i in range(len(rows)):
        total = values[rows[i]] + amounts[i]
        if total < amounts[i]:
            done = i
            break
        values[rows[i]] = total
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known
    return done


@bounded("len(counters) > CHANGED and len(mark) == len(changed) <= len(values) and len(amounts) == len(rows)")
@kernel
def add_narrow(
    values: Column, rows: Column, amounts: Column, least: int, most: int, mark: Column, changed: Column,
    counters: Column,
) -> int:  # fmt: skip
    """Add amounts to integers of at most 32 bits. Return how many were added before one did not fit."""
    known = counters[CHANGED]
    done = len(rows)
    for i in range(len(rows)):
        total = np.int64(values[rows[i]]) + np.int64(amounts[i])
        if total < least or total > most:
            done = i
            break
        values[rows[i]] = total
        known = marked(rows[i], mark, changed, known)
    counters[CHANGED] = known
    return done


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
