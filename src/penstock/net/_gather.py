"""Stretches of bytes to a column of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.frames._jit import Column, bounded, kernel, readonly, step

NO_BYTES: Column = np.empty(0, np.uint8)


def gathered(name: str, places: Column, sizes: Column, first: Column, second: Column = NO_BYTES) -> pl.Series:
    """A value of so many bytes from each place; places count through the first and then the second array."""
    ends = np.zeros(len(places) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    out = np.empty(int(ends[-1]), np.uint8)
    _gather(readonly(first), readonly(second), readonly(places), ends, out)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(out)]
    return pl.Series(name, pa.Array.from_buffers(pa.large_binary(), len(places), buffers))


@bounded("len(ends) == len(places) + 1 and ends[-1] <= len(out)")
@kernel
def _gather(first: Column, second: Column, places: Column, ends: Column, out: Column) -> None:
    for i in range(len(places)):
        if places[i] < len(first):
            copy(first, places[i], out, ends[i], ends[i + 1] - ends[i])
        else:
            copy(second, places[i] - len(first), out, ends[i], ends[i + 1] - ends[i])


@step
def copy(source: Column, at: Any, out: Column, to: Any, size: Any) -> None:
    """Copy bytes; unsigned places let the compiler move many at once."""
    from_, into = np.uint64(at), np.uint64(to)
    for b in range(np.uint64(size)):
        out[into + b] = source[from_ + b]
