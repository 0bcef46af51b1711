"""Hash keys the same way on every machine, in every process, in every release.

A key's hash decides in which slice its state lives: a change of these values loses state, so
golden values are pinned by tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

_NAN_BITS = np.int64(0x7FF8000000000000)
NO_MASK: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
NO_MASK.flags.writeable = False


def stable_hash(columns: Sequence[pl.Series]) -> npt.NDArray[np.uint64]:
    """One 64-bit hash per row over the columns in their order.

    Equal values hash equally whatever their width: int32 5 as int64 5, 1.0 as float32 as float64.
    -0.0 equals 0.0, NaN equals NaN, null is a value of its own. Raises TypeError for lists and structs.
    """
    from penstock.frames import _kernels as kernels

    if not columns:
        raise ValueError("a hash needs at least one column")
    hashes = np.zeros(len(columns[0]), np.uint64)  # the kernels refuse columns of other lengths
    for column in columns:
        mask = valid_mask(column)
        if is_bytes(column.dtype):
            offsets, data = byte_buffers(column)
            kernels.hash_bytes(offsets, data, mask, hashes)
        else:
            kernels.hash_words(as_words(column), mask, hashes)
    return hashes


def is_bytes(dtype: pl.DataType) -> bool:
    """Whether values of this type are compared as byte strings."""
    return isinstance(dtype, pl.String | pl.Binary | pl.Categorical | pl.Enum)


def valid_mask(column: pl.Series) -> npt.NDArray[np.uint8]:
    """1 where the column has a value; length 0 if it has one everywhere."""
    if not column.null_count():
        return NO_MASK
    return _shared(column.is_not_null().to_numpy().view(np.uint8))


def as_words(column: pl.Series) -> npt.NDArray[np.uint64]:
    """The 64 bits by which each value is compared; any bits where the column is null."""
    dtype = column.dtype
    if isinstance(dtype, pl.Null):
        return _shared(np.zeros(len(column), np.uint64))
    if dtype.is_float():
        return _shared(_float_bits(column))
    if not (dtype.is_integer() or dtype.is_temporal() or isinstance(dtype, pl.Boolean)):
        raise TypeError(f"column '{column.name}' of type {dtype} cannot be a key; use its parts as columns")
    column = column.to_physical()
    if column.null_count():
        column = column.fill_null(False if isinstance(dtype, pl.Boolean) else 0)
    wide = column if column.dtype == pl.UInt64 else column.cast(pl.Int64)
    return _shared(wide.rechunk().to_numpy().view(np.uint64))


def byte_buffers(column: pl.Series) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and data of a column of strings or bytes; empty where it is null."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    array = column.rechunk().to_arrow()
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return _shared(np.zeros(1, np.int64)), _shared(np.zeros(0, np.uint8))
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return _shared(ends), _shared(np.frombuffer(data or pa.py_buffer(b""), np.uint8))


def _float_bits(column: pl.Series) -> npt.NDArray[np.uint64]:
    values = column.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0  # -0.0 + 0.0 is 0.0
    bits = values.view(np.int64)
    bits[np.isnan(values)] = _NAN_BITS
    return bits.view(np.uint64)


def _shared(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    from penstock.frames._jit import readonly

    return readonly(array)
