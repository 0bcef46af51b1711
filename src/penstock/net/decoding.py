"""Blocks of indexed records to frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.frames._jit import Column, readonly
from penstock.net import _decode as kernels
from penstock.net import _layout as y
from penstock.net import columns as c
from penstock.net._index_state import NO_TIME
from penstock.net.capture import Block

_FIRST = (0, y.WIDE, y.LONG, y.SHORT)
_SUMS = (len(y.REASONS), 4, 256, 5)


def decode_block(block: Block, columns: Sequence[str], most_tunnels: int = y.MOST_TUNNELS) -> pl.DataFrame:
    """The packets of a block as rows; every packet becomes one, whatever it holds."""
    n = len(block)
    arrays: list[npt.NDArray[Any]] = [
        np.zeros((y.WIDE, n), np.uint64),
        np.zeros((y.LONG - y.WIDE, n), np.uint32),
        np.zeros((y.SHORT - y.LONG, n), np.uint16),
        np.zeros((y.ROW - y.SHORT, n), np.uint8),
    ]
    wide, long, short, tiny = arrays
    kernels.decode(*_views(block), most_tunnels, wide, long, short, tiny)
    return pl.DataFrame([_series(name, block, arrays) for name in columns])


def _views(block: Block) -> tuple[Column, Column, Column, Column]:
    return readonly(block.data), readonly(block.places), readonly(block.lengths), readonly(block.kinds)


def _series(name: str, block: Block, arrays: list[npt.NDArray[Any]]) -> pl.Series:
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


def _without(column: pl.Series, missing: npt.NDArray[np.bool_]) -> pl.Series:
    return column.set(pl.Series(missing), None) if missing.any() else column


def packets(block: Block) -> pl.Series:
    """The captured bytes of each packet."""
    ends = np.zeros(len(block) + 1, np.int64)
    np.cumsum(block.lengths[0], out=ends[1:])
    data = np.empty(int(ends[-1]), np.uint8)
    kernels.gather(readonly(block.data), readonly(block.places), readonly(ends), data)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pl.Series("packet", pa.Array.from_buffers(pa.large_binary(), len(block), buffers))


class Counter:
    """Adds packets up, by stretches of the file: what a stretch gives does not depend on how it was read."""

    def __init__(self, stretch_bytes: int, most_tunnels: int) -> None:
        self._stretch = stretch_bytes
        self._most_tunnels = most_tunnels
        self._sums = np.zeros(_SUMS, np.int64)
        self._now, self._place = -1, 0

    def add(self, block: Block) -> Iterator[tuple[int, pl.DataFrame]]:
        """Add a block; gives out the stretches that it ends, with the place of its first packet."""
        owner = block.places[0] // self._stretch
        cuts = np.flatnonzero(np.diff(owner, prepend=self._now)).tolist()
        views = _views(block)
        for first, stop in zip([0, *cuts], [*cuts, len(block)], strict=True):
            if first == stop:
                continue
            if owner[first] != self._now:
                yield from self.finish()
                self._now, self._place = int(owner[first]), int(block.places[0, first])
            kernels.count(*views, first, stop, self._most_tunnels, self._sums)

    def finish(self) -> Iterator[tuple[int, pl.DataFrame]]:
        """Give out the stretch that is being counted, if any."""
        if self._now >= 0 and (rows := self._rows()).height:
            yield self._place, rows
        self._sums[:] = 0

    def _rows(self) -> pl.DataFrame:
        reason, version, protocol = np.nonzero(self._sums[..., 0])
        cells = self._sums[reason, version, protocol]
        frame = [
            times("time", cells[:, 3]),
            times("last_time", cells[:, 4]),
            pl.Series("ip_version", (version * 2).astype(np.uint8)),
            pl.Series("protocol", protocol.astype(np.uint8)),
            pl.Series("reason", reason.astype(np.uint8)),
            *(pl.Series(name, cells[:, k]) for k, name in enumerate(("packets", "bytes", "captured_bytes"))),
        ]
        return pl.DataFrame(frame)
