"""Numba kernels that lay several key columns into one byte string per row, and back.

A field is one byte 0 for null, or one byte 1 and then 8 bytes of a fixed-width value, or 4 bytes of length
and the bytes of a string. Equal keys have equal byte strings, different keys different ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step


@bounded("len(sizes) >= rows and len(valid) in (0, rows)")
@kernel
def size_words(rows: int, valid: Column, sizes: Column) -> None:
    for i in range(rows):
        sizes[i] += 1 if len(valid) > 0 and not valid[i] else 9


@bounded("len(sizes) >= len(offsets) - 1 and len(valid) in (0, len(offsets) - 1)")
@kernel
def size_bytes(offsets: Column, valid: Column, sizes: Column) -> None:
    for i in range(len(offsets) - 1):
        sizes[i] += 1 if len(valid) > 0 and not valid[i] else 5 + offsets[i + 1] - offsets[i]


@step
def put(out: Any, at: Any, word: Any, size: Any) -> None:
    for k in range(size):
        out[at + k] = np.uint8((word >> np.uint64(8 * k)) & np.uint64(255))


@step
def get(data: Any, at: Any, size: Any) -> Any:
    word = np.uint64(0)
    for k in range(size):
        word |= np.uint64(data[at + k]) << np.uint64(8 * k)
    return word


# `size_words` and `size_bytes` have counted the room of each row, and rows lie in their order.
@bounded(
    "len(cursor) == len(words) and len(valid) in (0, len(words))",
    "len(cursor) == 0 or cursor[-1] < len(out)",
)
@kernel
def pack_words(words: Column, valid: Column, cursor: Column, out: Column) -> None:
    for i in range(len(words)):
        at = cursor[i]
        if len(valid) > 0 and not valid[i]:
            out[at] = 0
            cursor[i] = at + 1
        else:
            out[at] = 1
            put(out, at + 1, words[i], 8)
            cursor[i] = at + 9


@bounded(
    "len(cursor) == len(offsets) - 1 and len(valid) in (0, len(cursor)) and offsets[-1] <= len(data)",
    "len(cursor) == 0 or cursor[-1] < len(out)",
)
@kernel
def pack_bytes(offsets: Column, data: Column, valid: Column, cursor: Column, out: Column) -> None:
    for i in range(len(offsets) - 1):
        at = cursor[i]
        if len(valid) > 0 and not valid[i]:
            out[at] = 0
            cursor[i] = at + 1
            continue
        size = offsets[i + 1] - offsets[i]
        out[at] = 1
        put(out, at + 1, np.uint64(size), 4)
        for k in range(size):
            out[at + 5 + k] = data[offsets[i] + k]
        cursor[i] = at + 5 + size


@bounded("len(words) == len(valid) == len(cursor)")
@kernel
def unpack_words(data: Column, cursor: Column, words: Column, valid: Column) -> None:
    for i in range(len(cursor)):
        at = cursor[i]
        valid[i] = data[at]
        words[i] = get(data, at + 1, 8) if data[at] else np.uint64(0)
        cursor[i] = at + (9 if data[at] else 1)


@bounded("len(offsets) == len(cursor) + 1 and len(valid) == len(cursor)")
@kernel
def unpack_sizes(data: Column, cursor: Column, offsets: Column, valid: Column) -> None:
    for i in range(len(cursor)):
        at = cursor[i]
        valid[i] = data[at]
        offsets[i + 1] = offsets[i] + (np.int64(get(data, at + 1, 4)) if data[at] else 0)


@bounded("len(offsets) == len(cursor) + 1 and offsets[-1] <= len(out)")
@kernel
def unpack_bytes(data: Column, cursor: Column, offsets: Column, out: Column) -> None:
    for i in range(len(cursor)):
        at = cursor[i]
        size = offsets[i + 1] - offsets[i]
        for k in range(size):
            out[offsets[i] + k] = data[at + 5 + k]
        cursor[i] = at + (5 + size if data[at] else 1)


@bounded("len(starts) == len(sizes) and sizes[rows].sum() <= len(out)")
@kernel
def move(data: Column, starts: Column, sizes: Column, rows: Column, out: Column) -> int:
    """Copy the byte strings of these rows to the front of another arena; returns where they end."""
    end = 0
    for i in range(len(rows)):
        start, size = starts[rows[i]], sizes[rows[i]]
        for k in range(size):
            out[end + k] = data[start + k]
        starts[rows[i]] = end
        end += size
    return end
