"""Which row of a `KeyedTable` belongs to which key: one index for integers, one for all other keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.frames.hashing import as_words, byte_buffers, is_bytes, stable_hash, valid_mask
from penstock.frames.types import polars_type
from penstock.operators import _keyed_kernels as kernels
from penstock.operators import _keyed_packing as packing
from penstock.operators._keyed_rows import FIRST, Numbers, Rows, resized
from penstock.topology.schema import Schema

Prepared: TypeAlias = tuple[npt.NDArray[Any], ...]


class Index(Protocol):
    """Keys to rows. `assign` stops early when there is no room: `reserve` more and go on from there."""

    def prepare(self, columns: Sequence[pl.Series]) -> Prepared: ...
    def assign(self, keys: Prepared, rows: Rows, start: int, out: Numbers) -> int: ...
    def find(self, keys: Prepared, rows: Rows) -> Numbers: ...
    def place(self, keys: Prepared, numbers: Numbers, rows: Rows) -> None: ...
    def discard(self, numbers: Numbers, rows: Rows) -> None: ...
    def keys(self, numbers: Numbers, rows: Rows) -> list[pl.Series]: ...
    def reserve(self, live: int, rows: Rows) -> None: ...
    @property
    def nbytes(self) -> int: ...


def index_of(key: Schema, *, as_integer: frozenset[str]) -> Index:
    """The index that suits the key columns."""
    kinds = [kind for _, kind in key.columns]
    if len(kinds) == 1 and kinds[0] in as_integer:
        return IntIndex(key.names[0], kinds[0])
    return BytesIndex(key.names, kinds)


class IntIndex:
    """An index of one column of integers, bools, dates or times: the key itself is in the hash table."""

    def __init__(self, name: str, kind: str) -> None:
        self._name, self._kind = name, kind
        self._slots = np.zeros(2 * _slots_for(FIRST), np.int64)
        self._keys = np.zeros(FIRST, np.int64)

    def prepare(self, columns: Sequence[pl.Series]) -> Prepared:
        return as_words(columns[0]), valid_mask(columns[0])

    def assign(self, keys: Prepared, rows: Rows, start: int, out: Numbers) -> int:
        if start == 0:
            kernels.find_ints(keys[0], keys[1], self._slots, rows.counters, out)
        return kernels.assign_ints(
            keys[0], keys[1], start, self._slots, self._keys, rows.live, rows.mark, rows.changed, rows.free,
            rows.counters, out,
        )  # fmt: skip

    def find(self, keys: Prepared, rows: Rows) -> Numbers:
        out = np.empty(len(keys[0]), np.int64)
        kernels.find_ints(keys[0], keys[1], self._slots, rows.counters, out)
        return out

    def place(self, keys: Prepared, numbers: Numbers, rows: Rows) -> None:
        words, valid = keys
        self._keys[numbers] = words.view(np.int64)
        if len(valid):
            rows.counters[kernels.NULL_ROW] = numbers[valid == 0][0]
            numbers = numbers[valid == 1]
        kernels.place_ints(self._keys, numbers, self._slots)

    def discard(self, numbers: Numbers, rows: Rows) -> None:
        null_row = rows.counters[kernels.NULL_ROW]
        if (numbers == null_row).any():
            rows.counters[kernels.NULL_ROW] = -1
            numbers = numbers[numbers != null_row]
        kernels.discard_ints(self._keys, numbers, self._slots)

    def keys(self, numbers: Numbers, rows: Rows) -> list[pl.Series]:
        valid = numbers != rows.counters[kernels.NULL_ROW]
        return [series(self._name, self._keys[numbers].view(np.uint64), valid, self._kind)]

    def reserve(self, live: int, rows: Rows) -> None:
        self._keys = resized(self._keys, rows.capacity)
        if 2 * _slots_for(live) > len(self._slots):
            self._slots = np.zeros(2 * _slots_for(live), np.int64)
            known = np.flatnonzero(rows.live)
            kernels.place_ints(self._keys, known[known != rows.counters[kernels.NULL_ROW]], self._slots)

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._keys.nbytes


class BytesIndex:
    """An index of any columns: keys are byte strings in an arena, found by their stable hash."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str]) -> None:
        self._names, self._kinds = names, kinds
        self._slots = np.zeros(_slots_for(FIRST), np.int64)
        self._hash = np.zeros(FIRST, np.uint64)
        self._start = np.zeros(FIRST, np.int64)
        self._size = np.zeros(FIRST, np.int32)
        self._arena = np.zeros(16 * FIRST, np.uint8)
        self._wanted = 0

    def hash(self, columns: Sequence[pl.Series]) -> npt.NDArray[np.uint64]:
        return stable_hash(columns)

    def prepare(self, columns: Sequence[pl.Series]) -> Prepared:
        return self.hash(columns), *pack(columns)

    def assign(self, keys: Prepared, rows: Rows, start: int, out: Numbers) -> int:
        hashes, offsets, data = keys
        if start == 0:
            self._find(keys, out)
        done = kernels.assign_bytes(
            hashes, offsets, data, start, self._slots, self._hash, self._start, self._size, self._arena,
            rows.live, rows.mark, rows.changed, rows.free, rows.counters, out,
        )  # fmt: skip
        self._wanted = int(offsets[done + 1] - offsets[done]) if done < len(out) else 0
        return done

    def find(self, keys: Prepared, rows: Rows) -> Numbers:
        out = np.empty(len(keys[0]), np.int64)
        self._find(keys, out)
        return out

    def _find(self, keys: Prepared, out: Numbers) -> None:
        hashes, offsets, data = keys
        kernels.find_bytes(hashes, offsets, data, self._slots, self._start, self._size, self._arena, out)

    def place(self, keys: Prepared, numbers: Numbers, rows: Rows) -> None:
        hashes, offsets, data = keys
        self._make_room(len(data), rows)
        end = int(rows.counters[kernels.ARENA])
        self._arena[end : end + len(data)] = data
        self._start[numbers] = end + offsets[:-1]
        self._size[numbers] = np.diff(offsets)
        self._hash[numbers] = hashes
        rows.counters[kernels.ARENA] = end + len(data)
        kernels.place_bytes(self._hash, numbers, self._slots)

    def discard(self, numbers: Numbers, rows: Rows) -> None:
        kernels.discard_bytes(self._hash, numbers, self._slots)

    def keys(self, numbers: Numbers, rows: Rows) -> list[pl.Series]:
        cursor = self._start[numbers]
        pairs = zip(self._names, self._kinds, strict=True)
        return [unpack(self._arena, cursor, name, kind) for name, kind in pairs]

    def reserve(self, live: int, rows: Rows) -> None:
        for name in ("_hash", "_start", "_size"):
            setattr(self, name, resized(getattr(self, name), rows.capacity))
        if _slots_for(live) > len(self._slots):
            self._slots = np.zeros(_slots_for(live), np.int64)
            kernels.place_bytes(self._hash, np.flatnonzero(rows.live), self._slots)
        self._make_room(self._wanted, rows)

    @property
    def nbytes(self) -> int:
        parts = (self._slots, self._hash, self._start, self._size, self._arena)
        return sum(part.nbytes for part in parts)

    def _make_room(self, more: int, rows: Rows) -> None:
        """Make room in the arena, first by dropping removed keys; amortised by doubling what is in use."""
        end = int(rows.counters[kernels.ARENA])
        if end + more <= len(self._arena):
            return
        live = np.flatnonzero(rows.live)
        used = int(self._size[live].sum())
        arena = np.zeros(max(len(self._arena), 2 * (used + more)), np.uint8)
        rows.counters[kernels.ARENA] = packing.move(self._arena, self._start, self._size, live, arena)
        self._arena = arena


def pack(columns: Sequence[pl.Series]) -> tuple[Numbers, npt.NDArray[np.uint8]]:
    """One byte string per row, as offsets and data."""
    offsets = np.zeros(len(columns[0]) + 1, np.int64)
    writers: list[Callable[[Numbers, npt.NDArray[np.uint8]], None]] = []
    for column in columns:
        valid = valid_mask(column)
        if is_bytes(column.dtype):
            ends, content = byte_buffers(column)
            packing.size_bytes(ends, valid, offsets[1:])
            writers.append(partial(packing.pack_bytes, ends, content, valid))
        else:
            packing.size_words(len(column), valid, offsets[1:])
            writers.append(partial(packing.pack_words, as_words(column), valid))
    np.cumsum(offsets, out=offsets)
    data, cursor = np.empty(offsets[-1], np.uint8), offsets[:-1].copy()
    for write in writers:
        write(cursor, data)
    return offsets, data


def unpack(arena: npt.NDArray[np.uint8], cursor: Numbers, name: str, kind: str) -> pl.Series:
    """The next field of each byte string; the cursor moves on."""
    valid = np.empty(len(cursor), np.uint8)
    if kind not in ("string", "binary"):
        words = np.empty(len(cursor), np.uint64)
        packing.unpack_words(arena, cursor, words, valid)
        return series(name, words, valid.view(np.bool_), kind)
    offsets = np.zeros(len(cursor) + 1, np.int64)
    packing.unpack_sizes(arena, cursor, offsets, valid)
    data = np.empty(offsets[-1], np.uint8)
    packing.unpack_bytes(arena, cursor, offsets, data)
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
    arrow = pa.large_string() if kind == "string" else pa.large_binary()
    array = pa.Array.from_buffers(arrow, len(valid), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pl.Series(name, array)


def series(name: str, words: npt.NDArray[np.uint64], valid: npt.NDArray[np.bool_], kind: str) -> pl.Series:
    """A column of a fixed-width type from the 64 bits of each value."""
    numbers = words if kind == "uint64" else words.view(np.float64 if kind.startswith("float") else np.int64)
    column = pl.Series(name, numbers)
    if kind == "date":
        column = column.cast(pl.Int32)
    column = column.cast(polars_type(kind))
    if valid.all():
        return column
    return column.to_frame().select(pl.when(pl.Series(valid)).then(pl.col(name))).to_series()


def _slots_for(live: int) -> int:
    """A power of two, more than one and a half times as many as there are keys."""
    return 1 << (live + live // 2 + 1).bit_length()
