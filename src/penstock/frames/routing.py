"""Route in the sender: which slice each event goes to, and the batch cut by slice in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.frames._payload import encode_batch, join, narrow
from penstock.frames.frame import to_batch
from penstock.frames.hashing import as_words, stable_hash, valid_mask
from penstock.frames.slices import slice_of
from penstock.topology.routes import Broadcast, KeyBy, PartitionBy, Route, Shuffle, ToOne

__all__ = ["Cut", "encode_batch", "slice_ids", "split", "split_encoded"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio: its multiples fill the range evenly
_OFFSETS = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def slice_ids(df: pl.DataFrame, route: Route, slices: int, *, start: int) -> npt.NDArray[np.int32] | None:
    """The slice of each row, or None when every slice gets every row.

    `start` is the position of the batch's first row in its source, so that a replay, however it
    cuts the batches, sends each row to the same slice. Raises ValueError for a slice out of range.
    """
    match route:
        case KeyBy(columns):
            return slice_of(stable_hash([df[name] for name in columns]), slices)
        case Shuffle(None):
            return (np.arange(df.height, dtype=np.int32) + np.int32(start % slices)) % np.int32(slices)
        case Shuffle(weights):
            return _weighted(df.height, np.asarray(weights, np.float64), slices, start)
        case ToOne():
            return np.zeros(df.height, np.int32)
        case PartitionBy(function):
            return _checked(function(df), df.height, slices)
        case Broadcast():
            return None
    raise TypeError(f"no way to route by {route!r}")


@dataclass(frozen=True, slots=True)
class Cut:
    """What one slice gets of a batch: a payload and what its frame's header says of it."""

    slice: int
    rows: int
    first_time: int | None
    last_time: int | None
    payload: bytes


def split(df: pl.DataFrame, ids: npt.NDArray[np.int32], slices: int) -> list[tuple[int, pa.RecordBatch]]:
    """Cut a frame by slice: the non-empty slices in ascending order, each ready to encode.

    Rows keep their order within a slice.
    """
    starts, places = _places(ids, df.height, slices)
    grouped = _gather(to_batch(df), places)
    return [(s, grouped.slice(starts[s], starts[s + 1] - starts[s])) for s in _filled(starts)]


def split_encoded(
    df: pl.DataFrame, ids: npt.NDArray[np.int32], slices: int, *, time: str | None = None
) -> list[Cut]:
    """Cut a frame by slice and encode each part: `split` and `encode_batch` at half the cost.

    Columns are narrowed once for the whole batch, so fewer bytes move. With `time`, each cut has the first
    and last time of its events in that column.
    """
    starts, places = _places(ids, df.height, slices)
    filled = _filled(starts)
    firsts, lasts = _times(df, time, ids, slices)
    head, narrowed = narrow(to_batch(df))
    grouped = _gather(narrowed, places)
    cuts = []
    for s in filled:
        rows = int(starts[s + 1] - starts[s])
        cuts.append(Cut(s, rows, firsts[s], lasts[s], join(head, grouped.slice(starts[s], rows))))
    return cuts


def _places(
    ids: npt.NDArray[np.int32], rows: int, slices: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Where each slice starts, and where each row goes, when rows are grouped by slice."""
    from penstock.frames import _kernels as kernels

    if len(ids) != rows:
        raise ValueError(f"{len(ids)} slice numbers for {rows} rows")
    starts = np.zeros(slices + 1, np.int64)
    places = np.empty(len(ids), np.int32)
    if wrong := kernels.destinations(kernels.readonly(ids.astype(np.int32, copy=False)), starts, places):
        raise ValueError(f"{wrong} slice numbers are not in 0 … {slices - 1}")
    return starts, kernels.readonly(places)


def _filled(starts: npt.NDArray[np.int64]) -> list[int]:
    return [int(s) for s in np.flatnonzero(np.diff(starts))]


def _times(
    df: pl.DataFrame, time: str | None, ids: npt.NDArray[np.int32], slices: int
) -> tuple[list[int | None], list[int | None]]:
    """The first and last time of the events of each slice."""
    from penstock.frames import _kernels as kernels

    if time is None:
        return [None] * slices, [None] * slices
    column = df[time]
    mask = valid_mask(column)
    bounds = np.empty((2, slices), np.int64)
    seen = np.zeros(slices, np.uint8)
    kernels.bounds(as_words(column).view(np.int64), mask, kernels.readonly(ids), bounds, seen)
    known = seen.tolist()
    firsts, lasts = (
        [at if has else None for at, has in zip(row, known, strict=True)] for row in bounds.tolist()
    )
    return firsts, lasts


def _gather(batch: pa.RecordBatch, places: npt.NDArray[np.int32]) -> pa.RecordBatch:
    """The batch with each row in its place."""
    from penstock.frames import _kernels as kernels

    order: pa.Array | None = None
    columns = []
    for column in batch.columns:
        if _is_plain(column):
            columns.append(_scatter(column, places))
        elif column.null_count == 0 and column.type in _OFFSETS:
            columns.append(_scatter_bytes(column, places))
        elif pa.types.is_null(column.type):
            columns.append(column)
        else:
            if order is None:
                rows = np.empty(len(places), np.int32)
                kernels.invert(places, rows)
                order = pa.array(rows)
            columns.append(column.take(order))
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_plain(column: pa.Array) -> bool:
    kind = column.type
    return bool(column.null_count == 0 and pa.types.is_primitive(kind) and kind.bit_width >= 8)


def _scatter(column: pa.Array, places: npt.NDArray[np.int32]) -> pa.Array:
    from penstock.frames import _kernels as kernels

    # One kernel per width: floats and times move as integers of the same size.
    dtype = np.dtype(_SIGNED[column.type.bit_width // 8])
    values = np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)
    out = np.empty(len(values), dtype)
    kernels.scatter(kernels.readonly(values), places, out)
    return pa.Array.from_buffers(column.type, len(out), [None, pa.py_buffer(out)])


def _scatter_bytes(column: pa.Array, places: npt.NDArray[np.int32]) -> pa.Array:
    from penstock.frames import _kernels as kernels

    dtype = np.dtype(_OFFSETS[column.type])
    _, ends, content = column.buffers()
    if ends is None or content is None or not len(column):
        return column
    offsets = np.frombuffer(ends, dtype, len(column) + 1, column.offset * dtype.itemsize)
    data = np.frombuffer(content, np.uint8)
    moved, out = np.zeros(len(column) + 1, dtype), np.empty(offsets[-1] - offsets[0], np.uint8)
    kernels.scatter_bytes(kernels.readonly(offsets), kernels.readonly(data), places, moved, out)
    return pa.Array.from_buffers(column.type, len(column), [None, pa.py_buffer(moved), pa.py_buffer(out)])


def _weighted(rows: int, weights: npt.NDArray[np.float64], slices: int, start: int) -> npt.NDArray[np.int32]:
    if len(weights) != slices or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
        raise ValueError(f"a shuffle over {slices} slices needs as many weights, none negative, not all zero")
    positions = np.arange(rows, dtype=np.uint64) + np.uint64(start & 0xFFFFFFFFFFFFFFFF)
    points = (positions * _GOLDEN >> np.uint64(11)).astype(np.float64) * 2.0**-53
    edges = np.cumsum(weights) / weights.sum()
    edges[np.flatnonzero(weights)[-1] :] = 1.0  # rounding must not leave a gap at the end
    return np.searchsorted(edges, points, side="right").astype(np.int32)


def _checked(answer: Any, rows: int, slices: int) -> npt.NDArray[np.int32]:
    ids = np.asarray(answer)  # nulls make it floats or objects, which are refused
    if ids.shape != (rows,) or ids.dtype.kind not in "iu":
        got = f"{ids.dtype} of shape {ids.shape}"
        raise ValueError(f"a partition function must give one integer for each of {rows} rows: got {got}")
    if rows and (ids.min() < 0 or ids.max() >= slices):
        allowed = f"0 … {slices - 1}"
        raise ValueError(f"a partition function gave slices {ids.min()} … {ids.max()}, allowed are {allowed}")
    return ids.astype(np.int32)
