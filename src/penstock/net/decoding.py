"""Blocks of indexed records to frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.frames._jit import Column, readonly
from penstock.net import _decode as kernels
from penstock.net import _layout as y
from penstock.net import columns as c
from penstock.net._gather import gathered
from penstock.net._index_state import NO_TIME
from penstock.net.capture import Block

_TIMES = ("time", "time_ns")
_FIRST = (0, y.WIDE, y.LONG, y.SHORT)


def decode_block(
    block: Block, columns: Sequence[str], most_tunnels: int = y.MOST_TUNNELS, *, file: str | None = None
) -> pl.DataFrame:
    """The packets of a block as rows; every packet becomes one, whatever it holds.

    ``file`` is the plain file that the block was read from.
    """
    n = len(block)
    arrays: list[npt.NDArray[Any]] = [
        np.zeros((y.WIDE, n), np.uint64),
        np.zeros((y.LONG - y.WIDE, n), np.uint32),
        np.zeros((y.SHORT - y.LONG, n), np.uint16),
        np.zeros((y.ROW - y.SHORT, n), np.uint8),
    ]
    wide, long, short, tiny = arrays
    kernels.decode(*views(block), most_tunnels, wide, long, short, tiny)
    return pl.DataFrame([_series(name, block, arrays, file) for name in columns])


def views(block: Block) -> tuple[Column, Column, Column, Column]:
    """The arrays of a block as the kernels take them."""
    return readonly(block.data), readonly(block.places), readonly(block.lengths), readonly(block.kinds)


def _series(name: str, block: Block, arrays: list[npt.NDArray[Any]], file: str | None) -> pl.Series:
    for table, first, array in zip(c.TABLES, _FIRST, arrays, strict=True):
        if name in table:
            return pl.Series(name, array[table[name] - first])
    match name:
        case "time":
            return times(name, block.places[2])
        case "time_ns":
            column = pl.Series(name, block.places[2].copy())
            return _without(column, block.places[2] == NO_TIME)
        case "packet":
            return packets(block).alias(name)
        case "capture_file":
            return pl.repeat(file, len(block), dtype=pl.String, eager=True).alias(name)
        case "capture_place":
            return pl.Series(name, block.places[1] + block.base if file else np.zeros(len(block), np.int64))
    values = {
        "length": block.lengths[1],
        "captured": block.lengths[0],
        "interface": block.kinds[0],
        "link_type": block.kinds[1].astype(np.uint16),
    }
    return pl.Series(name, values[name].copy())


def times(name: str, time_ns: npt.NDArray[np.int64]) -> pl.Series:
    """Times in ns as timestamps in µs; null where there is none."""
    column = pl.Series(name, time_ns // 1000).cast(pl.Datetime("us"))
    return _without(column, time_ns == NO_TIME)


def undated(rows: pl.DataFrame, impossible: pl.Series) -> pl.DataFrame:
    """Return rows of packets or counts, some of them without their times, which their reason tells."""
    told: dict[str, pl.Expr] = {name: pl.lit(None) for name in _TIMES if name in rows.columns}
    if "reason" in rows.columns:  # what else is wrong with a packet says more
        told["reason"] = pl.when(pl.col("reason") == y.OK).then(y.IMPOSSIBLE_TIME).otherwise("reason")
    changed = [
        pl.when(impossible).then(value).otherwise(name).cast(rows.schema[name]).alias(name)
        for name, value in told.items()
    ]
    return rows.with_columns(changed)


def _without(column: pl.Series, missing: npt.NDArray[np.bool_]) -> pl.Series:
    return column.set(pl.Series(missing), None) if missing.any() else column


def packets(block: Block) -> pl.Series:
    """The captured bytes of each packet: views into one copy of all that the block spans.

    Moving each packet to its own place took 1.4 s for a million packets of 500 bytes, this takes 0.4 s.
    Nothing is copied of a mapped file, which stays as it is; a buffer will be filled again.
    """
    if not len(block):
        return pl.Series("packet", [], pl.Binary)
    places, lengths = block.places[1], block.lengths[0]
    first, end = int(places[0]), int((places + lengths).max())
    if end - first > kernels.MOST_VIEWED:  # records with gigabytes of damage between them
        return gathered("packet", places, lengths, block.data)
    data = block.data[first:end]
    data = data.copy() if data.flags.writeable else data
    views = np.empty((len(block), 4), np.uint32)
    kernels.views(readonly(data), readonly(places - first), readonly(lengths), views)
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    return pl.Series("packet", pa.Array.from_buffers(pa.binary_view(), len(block), buffers))
