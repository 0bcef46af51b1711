"""Stretches of bytes to a column of bytes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.frames._jit import Column, kernel, readonly

NO_BYTES: Column = np.empty(0, np.uint8)


def gathered(name: str, places: Column, sizes: Column, first: Column, second: Column = NO_BYTES) -> pl.Series:
    """A value of so many bytes from each place; places count through the first and then the second array."""
    ends = np.zeros(len(places) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    out = np.empty(int(ends[-1]), np.uint8)
    _gather(readonly(first), readonly(second), readonly(places), ends, out)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(out)]
    return pl.Series(name, pa.Array.from_buffers(pa.large_binary(), len(places), buffers))


@kernel
def _gather(first: Column, second: Column, places: Column, ends: Column, out: Column) -> None:
    for i in range(len(places)):
        if places[i] < len(first):
            source, at = first, places[i]
        else:
            source, at = second, places[i] - len(first)
        for b in range(ends[i + 1] - ends[i]):
            out[ends[i] + b] = source[at + b]
