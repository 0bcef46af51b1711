"""Numba kernels of `KeyedTable`: hash tables with linear probing, and changes by row number.

A table of integer keys has slots of two words (key, row + 1); a table of byte-string keys has slots of
one word (high half of the hash, row + 1). 0 as row + 1 is an empty slot. At most two thirds of the slots
are used. The low bits of a hash choose the slot, because keys of one slice share the high bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.frames._kernels import mix

ROWS, FREE, CHANGED, LIVE, NULL_ROW, POPPED, ARENA, COUNTERS = range(8)
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
def marked(row: Any, mark: Any, changed: Any, count: Any) -> Any:
    """Mark a row as changed; returns the new count, because a local is 6 times faster than counters[…]."""
    if mark[row] == 0:
        mark[row] = 1
        changed[count] = row
        return count + 1
    return count


@bounded(
    "len(out) == len(words) and len(valid) in (0, len(words))",
    "is_power_of_two(len(slots) // 2)",
)
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


# Each row is marked once, so ``changed`` needs no more room than there are rows.
@bounded(
    "len(out) == len(words) and len(valid) in (0, len(words))",
    "is_power_of_two(len(slots) // 2) and len(keys) >= len(live)",
    "len(live) == len(mark) == len(changed) == len(free) and len(counters) == COUNTERS",
)
@kernel
def assign_ints(
    words: Column, valid: Column, start: int, slots: Column, keys: Column, live: Column, mark: Column,
    changed: Column, free: Column, counters: Column, out: Column,
) -> int:  # fmt: skip
    """Add the keys that `find_ints` did not find, mark all; returns where it stopped for lack of room."""
    mask = np.int64(len(slots) // 2 - 1)
    count = counters[CHANGED]
    done = len(words)
    for i in range(start, len(words)):
        row = out[i]
        if row < 0:
            is_null = len(valid) > 0 and not valid[i]
            key = np.int64(words[i])
            at = home_of(words[i], mask)
            while not is_null and slots[2 * at + 1] != 0 and slots[2 * at] != key:
                at = (at + 1) & mask
            row = counters[NULL_ROW] if is_null else slots[2 * at + 1] - 1
            if row < 0:
                if is_full(mask + 1, live, counters):
                    done = i
                    break
                row = new_row(live, free, counters)
                if is_null:
                    counters[NULL_ROW] = row
                else:
                    keys[row] = key
                    slots[2 * at] = key
                    slots[2 * at + 1] = row + 1
        count = marked(row, mark, changed, count)
        out[i] = row
    counters[CHANGED] = count
    return done


@bounded("is_power_of_two(len(slots) // 2) and 3 * len(rows) < len(slots)")
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


@bounded("is_power_of_two(len(slots) // 2)")
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
    i = 0
    while i < size and arena[a + i] == data[b + i]:
        i += 1
    return i == size


@step
def slot_of(
    word: Any, data: Any, begin: Any, size: Any, slots: Any, row_start: Any, row_size: Any, arena: Any
) -> Any:
    """The slot that has the key, or the empty one where it would be."""
    mask = np.int64(len(slots) - 1)
    wanted = tagged(word, -1)
    at = np.int64(word) & mask
    while slots[at] != 0:
        if (slots[at] & ~_LOW) == wanted:
            row = (slots[at] & _LOW) - 1
            if row_size[row] == size and is_same(arena, row_start[row], data, begin, size):
                break
        at = (at + 1) & mask
    return at


@step
def warm(hashes: Any, first: Any, size: Any, slots: Any, row_start: Any, row_size: Any, arena: Any) -> Any:
    """Load what a block of keys will be compared with; the loads do not wait for each other."""
    mask = np.int64(len(slots) - 1)
    seen = np.empty(_BLOCK, np.int64)
    for j in range(size):
        seen[j] = slots[np.int64(hashes[first + j]) & mask] & _LOW
    total = 0
    for j in range(size):
        row = max(seen[j] - 1, 0)
        seen[j] = row_start[row]
        total += row_size[row]
    for j in range(size):
        total += arena[seen[j]]
    return total


@bounded(
    "len(out) == len(hashes) == len(offsets) - 1 and offsets[-1] <= len(data)",
    "is_power_of_two(len(slots)) and len(row_start) == len(row_size)",
)
@kernel
def find_bytes(
    hashes: Column, offsets: Column, data: Column, slots: Column, row_start: Column, row_size: Column,
    arena: Column, out: Column,
) -> int:  # fmt: skip
    """The row of each key, -1 where there is none.

    The search of `slot_of` is written out here: as a call it costs a third more.
    """
    mask = np.int64(len(slots) - 1)
    warmth = 0
    for i in range(len(hashes)):
        if i % _BLOCK == 0:
            warmth += warm(hashes, i, min(_BLOCK, len(hashes) - i), slots, row_start, row_size, arena)
        begin, size = offsets[i], offsets[i + 1] - offsets[i]
        wanted = tagged(hashes[i], -1)
        at = np.int64(hashes[i]) & mask
        while slots[at] != 0:
            if (slots[at] & ~_LOW) == wanted:
                row = (slots[at] & _LOW) - 1
                if row_size[row] == size:
                    known, same = row_start[row], 0
                    while same < size and arena[known + same] == data[begin + same]:
                        same += 1
                    if same == size:
                        break
            at = (at + 1) & mask
        out[i] = (slots[at] & _LOW) - 1
    return warmth  # or the compiler would leave the loads out


@bounded(
    "len(out) == len(hashes) == len(offsets) - 1 and offsets[-1] <= len(data)",
    "is_power_of_two(len(slots)) and len(row_hash) == len(row_start) == len(row_size) >= len(live)",
    "counters[ARENA] <= len(arena)",
    "len(live) == len(mark) == len(changed) == len(free) and len(counters) == COUNTERS",
)
@kernel
def assign_bytes(
    hashes: Column, offsets: Column, data: Column, start: int, slots: Column, row_hash: Column,
    row_start: Column, row_size: Column, arena: Column, live: Column, mark: Column, changed: Column,
    free: Column, counters: Column, out: Column,
) -> int:  # fmt: skip
    """Add the keys that `find_bytes` did not find, mark all; returns where it stopped for lack of room."""
    count = counters[CHANGED]
    done = len(hashes)
    for i in range(start, len(hashes)):
        row = out[i]
        if row < 0:
            begin, size = offsets[i], offsets[i + 1] - offsets[i]
            at = slot_of(hashes[i], data, begin, size, slots, row_start, row_size, arena)
            row = (slots[at] & _LOW) - 1
        if row < 0:
            end = counters[ARENA]
            if is_full(len(slots), live, counters) or end + size > len(arena):
                done = i
                break
            row = new_row(live, free, counters)
            row_hash[row] = hashes[i]
            row_start[row] = end
            row_size[row] = size
            for k in range(size):
                arena[end + k] = data[begin + k]
            counters[ARENA] = end + size
            slots[at] = tagged(hashes[i], row)
        count = marked(row, mark, changed, count)
        out[i] = row
    counters[CHANGED] = count
    return done


@bounded("is_power_of_two(len(slots)) and 3 * len(rows) < 2 * len(slots)")
@kernel
def place_bytes(row_hash: Column, rows: Column, slots: Column) -> None:
    """Enter the keys of these rows, none of which is in the table."""
    mask = np.int64(len(slots) - 1)
    for i in range(len(rows)):
        at = np.int64(row_hash[rows[i]]) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = tagged(row_hash[rows[i]], rows[i])


@bounded("is_power_of_two(len(slots))")
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
