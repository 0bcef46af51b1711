"""Numba kernels of `KeyedTable`: hash tables with linear probing, and changes by row number.

A table of integer keys has slots of two words (key, row + 1); a table of byte-string keys has slots of one
word (high half of the hash, row + 1). 0 as row + 1 is an empty slot. At most two thirds of the slots are used.
The low bits of a hash choose the slot, because keys of one slice share the high bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, kernel, step
from penstock.frames._kernels import mix

ROWS, FREE, CHANGED, LIVE, NULL_ROW, POPPED, ARENA, COUNTERS = 0, 1, 2, 3, 4, 5, 6, 7
_BLOCK = 64
_LOW = np.int64(0xFFFFFFFF)
_HIGH = np.uint64(32)


@step
def home_of(word: Any, mask: Any) -> Any:
    return np.int64(mix(np.uint64(word))) & mask


@step
def is_full(slots: Any, live: Any, counters: Any) -> Any:
    return counters[LIVE] * 3 >= slots * 2 or (counters[FREE] == 0 and counters[ROWS] >= len(live))


@step
def new_row(live: Any, free: Any, counters: Any) -> Any:
    if counters[FREE] > 0:
        counters[FREE] -= 1
        counters[POPPED] += 1
        row = np.int64(free[counters[FREE]])
    else:
        row = counters[ROWS]
        counters[ROWS] += 1
    live[row] = 1
    counters[LIVE] += 1
    return row


@step
def mark_row(row: Any, mark: Any, changed: Any, counters: Any) -> None:
    if mark[row] == 0:
        mark[row] = 1
        changed[counters[CHANGED]] = row
        counters[CHANGED] += 1


@kernel
def assign_ints(
    words: Column, valid: Column, start: int, slots: Column, keys: Column, live: Column, mark: Column,
    changed: Column, free: Column, counters: Column, out: Column,
) -> int:  # fmt: skip
    """Give each key its row, adding unknown keys; returns where it stopped for lack of room."""
    mask = np.int64(len(slots) // 2 - 1)
    homes = np.empty(_BLOCK, np.int64)
    seen_keys = np.empty(_BLOCK, np.int64)
    seen_rows = np.empty(_BLOCK, np.int64)
    for first in range(start, len(words), _BLOCK):
        size = min(_BLOCK, len(words) - first)
        # Loads of a block do not wait for each other, so cache misses overlap.
        for j in range(size):
            at = home_of(words[first + j], mask)
            homes[j] = at
            seen_keys[j] = slots[2 * at]
            seen_rows[j] = slots[2 * at + 1]
        for j in range(size):
            i = first + j
            key = np.int64(words[i])
            if len(valid) > 0 and not valid[i]:
                row = counters[NULL_ROW]
                if row < 0:
                    if is_full(mask + 1, live, counters):
                        return i
                    row = new_row(live, free, counters)
                    counters[NULL_ROW] = row
            elif seen_rows[j] != 0 and seen_keys[j] == key:
                row = seen_rows[j] - 1
            else:
                at = homes[j]
                while slots[2 * at + 1] != 0 and slots[2 * at] != key:
                    at = (at + 1) & mask
                row = slots[2 * at + 1] - 1
                if row < 0:
                    if is_full(mask + 1, live, counters):
                        return i
                    row = new_row(live, free, counters)
                    keys[row] = key
                    slots[2 * at] = key
                    slots[2 * at + 1] = row + 1
            mark_row(row, mark, changed, counters)
            out[i] = row
    return len(words)


@kernel
def find_ints(words: Column, valid: Column, slots: Column, counters: Column, out: Column) -> None:
    """The row of each key, -1 where there is none."""
    mask = np.int64(len(slots) // 2 - 1)
    for i in range(len(words)):
        if len(valid) > 0 and not valid[i]:
            out[i] = counters[NULL_ROW]
            continue
        key = np.int64(words[i])
        at = home_of(words[i], mask)
        while slots[2 * at + 1] != 0 and slots[2 * at] != key:
            at = (at + 1) & mask
        out[i] = slots[2 * at + 1] - 1


@kernel
def place_ints(keys: Column, rows: Column, slots: Column) -> None:
    """Enter the keys of these rows, none of which is in the table."""
    mask = np.int64(len(slots) // 2 - 1)
    for i in range(len(rows)):
        key = keys[rows[i]]
        at = home_of(key, mask)
        while slots[2 * at + 1] != 0:
            at = (at + 1) & mask
        slots[2 * at] = key
        slots[2 * at + 1] = rows[i] + 1


@kernel
def discard_ints(keys: Column, rows: Column, slots: Column) -> None:
    """Take the keys of these rows out and close the gaps, so that no search ends too early."""
    mask = np.int64(len(slots) // 2 - 1)
    for i in range(len(rows)):
        gap = home_of(keys[rows[i]], mask)
        while slots[2 * gap + 1] != rows[i] + 1:
            gap = (gap + 1) & mask
        at = (gap + 1) & mask
        while slots[2 * at + 1] != 0:
            home = home_of(slots[2 * at], mask)
            if ((at - home) & mask) >= ((at - gap) & mask):
                slots[2 * gap] = slots[2 * at]
                slots[2 * gap + 1] = slots[2 * at + 1]
                gap = at
            at = (at + 1) & mask
        slots[2 * gap + 1] = 0


@step
def tagged(word: Any, row: Any) -> Any:
    return np.int64((np.uint64(word) >> _HIGH) << _HIGH) | (np.int64(row) + 1)


@step
def is_same(arena: Any, a: Any, data: Any, b: Any, size: Any) -> Any:
    for i in range(size):
        if arena[a + i] != data[b + i]:
            return False
    return True


@kernel
def assign_bytes(
    hashes: Column, offsets: Column, data: Column, start: int, slots: Column, row_hash: Column,
    row_start: Column, row_size: Column, arena: Column, live: Column, mark: Column, changed: Column,
    free: Column, counters: Column, out: Column, add: bool,
) -> int:  # fmt: skip
    """Give each key its row; `add` unknown keys and mark all, or answer -1 and mark nothing."""
    mask = np.int64(len(slots) - 1)
    for i in range(start, len(hashes)):
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        wanted = tagged(hashes[i], -1)
        at = np.int64(hashes[i]) & mask
        row = np.int64(-1)
        while slots[at] != 0:
            if (slots[at] & ~_LOW) == wanted:
                known = (slots[at] & _LOW) - 1
                if row_size[known] == size and is_same(arena, row_start[known], data, begin, size):
                    row = known
                    break
            at = (at + 1) & mask
        if not add:
            out[i] = row
            continue
        if row < 0:
            if is_full(mask + 1, live, counters) or counters[ARENA] + size > len(arena):
                return i
            row = new_row(live, free, counters)
            row_hash[row] = hashes[i]
            row_start[row] = counters[ARENA]
            row_size[row] = size
            for k in range(size):
                arena[counters[ARENA] + k] = data[begin + k]
            counters[ARENA] += size
            slots[at] = tagged(hashes[i], row)
        mark_row(row, mark, changed, counters)
        out[i] = row
    return len(hashes)


@kernel
def place_bytes(row_hash: Column, rows: Column, slots: Column) -> None:
    """Enter the keys of these rows, none of which is in the table."""
    mask = np.int64(len(slots) - 1)
    for i in range(len(rows)):
        at = np.int64(row_hash[rows[i]]) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = tagged(row_hash[rows[i]], rows[i])


@kernel
def discard_bytes(row_hash: Column, rows: Column, slots: Column) -> None:
    """Take the keys of these rows out and close the gaps."""
    mask = np.int64(len(slots) - 1)
    for i in range(len(rows)):
        gap = np.int64(row_hash[rows[i]]) & mask
        while (slots[gap] & _LOW) != rows[i] + 1:
            gap = (gap + 1) & mask
        at = (gap + 1) & mask
        while slots[at] != 0:
            home = np.int64(row_hash[(slots[at] & _LOW) - 1]) & mask
            if ((at - home) & mask) >= ((at - gap) & mask):
                slots[gap] = slots[at]
                gap = at
            at = (at + 1) & mask
        slots[gap] = 0
