"""Numba kernels of the join: the rows of each key in the order of their time.

The head of a key is 0 without rows, ``row + 1`` with one row, and ``-(at + 1)`` with several: the arena then
has their number at ``at`` and the rows behind it, by time and then by arrival. A list has room for the next
power of two; one that is full moves to the end of the arena.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step

USED, UNTIDY, LOOKED = range(3)
_SHIFTED = 64
"""A row that is behind more rows than this waits at the end of its list until `tidy` sorts it in."""

_SHORT = 8


@step
def room_for(size: Any) -> Any:
    room = 2
    while room < size:
        room *= 2
    return room


@step
def words_needed(head: Any, arena: Any) -> Any:
    """Return how many words another row of a key takes at the end of the arena: none if its list has room."""
    if head >= 0:
        return 0 if head == 0 else 3
    size = abs(arena[-head - 1])
    return 1 + 2 * size if size & (size - 1) == 0 else 0  # full at each power of two


@step
def move(head: Any, arena: Any, used: Any) -> Any:
    """Put the rows of a key, one or many, at the end of the arena, with room for one more at least."""
    if head > 0:
        arena[used], arena[used + 1] = 1, head - 1
    else:
        for j in range(abs(arena[-head - 1]) + 1):
            arena[used + j] = arena[-head - 1 + j]
    return -(used + 1)


@step
def insert(row: Any, at: Any, times: Any, arena: Any) -> Any:
    """Put a row into a list in its place; return how many rows made way."""
    arena[at] += 1
    place = at + arena[at]
    while place > at + 1 and times[arena[place - 1]] > times[row]:
        arena[place] = arena[place - 1]
        place -= 1
    arena[place] = row
    return at + arena[at] - place


# A row makes its key's list untidy once at most. A list that has no room where it is ends the loop.
@bounded(
    "first + len(keys) <= len(times) and keys.max(initial=-1) < len(heads)",
    "len(untidy) == len(sorted_sizes) >= len(keys)",
    "len(counters) > LOOKED and counters[USED] <= len(arena)",
)
@kernel
def enter(
    keys: Column, start: int, first: int, times: Column, heads: Column, arena: Column, untidy: Column,
    sorted_sizes: Column, counters: Column,
) -> int:  # fmt: skip
    """Enter rows from ``start`` on, of which row 0 has position ``first``; return where room ran out.

    A list that gets a row far behind its time is left untidy: its size is negative until it is tidied.
    """
    used, count, looked = counters[USED], counters[UNTIDY], counters[LOOKED]
    done = len(keys)
    for i in range(start, len(keys)):
        key, row = keys[i], first + i
        if key < 0:
            continue
        if heads[key] == 0:
            heads[key] = row + 1
            continue
        needed = words_needed(heads[key], arena)
        if used + needed > len(arena):
            done = i
            break
        if needed > 0:
            heads[key] = move(heads[key], arena, used)
            used += needed
        at = -heads[key] - 1
        if arena[at] > _SHIFTED and times[arena[at + 1 + arena[at] - _SHIFTED]] > times[row]:
            untidy[count], sorted_sizes[count] = key, arena[at]
            count += 1
            arena[at] = -arena[at]
        if arena[at] > 0:
            looked += insert(row, at, times, arena)
        else:
            arena[at] -= 1
            arena[at - arena[at]] = row
    counters[USED], counters[UNTIDY], counters[LOOKED] = used, count, looked
    return done


# Every untidy list has rows of its own in the arena, behind the number that `enter` keeps of them.
@bounded(
    "len(untidy) == len(sorted_sizes) <= len(arena)",
    "untidy.max(initial=-1) < len(heads)",
)
@kernel
def tidy(untidy: Column, sorted_sizes: Column, times: Column, heads: Column, arena: Column) -> int:
    """Sort what was put at the end of lists into them; return how many rows had to be moved."""
    moved = 0
    for i in range(len(untidy)):
        at = -heads[untidy[i]] - 1
        size, before = -arena[at], sorted_sizes[i]
        rows = arena[at + 1 : at + 1 + size]
        late = rows[before:].copy()
        late = late[np.argsort(times[late], kind="mergesort")]  # stable: equal times stay as they came
        place, left, right = size - 1, before - 1, len(late) - 1
        while right >= 0:
            if left >= 0 and times[rows[left]] > times[late[right]]:
                rows[place] = rows[left]
                left -= 1
            else:
                rows[place] = late[right]
                right -= 1
            place -= 1
        moved += size - 1 - place
        arena[at] = size
    return moved


@step
def after(times: Any, arena: Any, begin: Any, end: Any, bound: Any) -> Any:
    """Return the first place from begin to end whose time is behind the bound, and how often it looked.

    Looks from the end in growing steps, since most bounds are near it; one by one in a short list.
    """
    looked, width, high = 1, 1, end
    if end - begin <= _SHORT:
        while high > begin and times[arena[high - 1]] > bound:
            high -= 1
        return high, end - high + 1
    low = end - 1
    while low >= begin and times[arena[low]] > bound:
        high = low
        width *= 2
        low = high - width
        looked += 1
    low = max(low + 1, begin)
    while low < high:
        middle = (low + high) // 2
        looked += 1
        if times[arena[middle]] > bound:
            high = middle
        else:
            low = middle + 1
    return low, looked


@bounded(
    "len(begins) == len(counts) == len(keys) == len(moments)",
    "keys.max(initial=-1) < len(heads)",
)
@kernel
def find(
    keys: Column, moments: Column, heads: Column, arena: Column, times: Column, within: int, begins: Column,
    counts: Column,
) -> int:  # fmt: skip
    """Find the rows of the other side that lie within the distance of each row; return how often it looked.

    ``begins`` becomes their first place in the arena, or ``-(row + 1)`` of the only row of a key.
    """
    total = 0
    for i in range(len(keys)):
        counts[i] = 0
        if keys[i] < 0 or heads[keys[i]] == 0:
            continue
        head, low, high = heads[keys[i]], moments[i] - within, moments[i] + within
        if head > 0:
            total += 1
            begins[i] = -head
            if low <= times[head - 1] <= high:
                counts[i] = 1
            continue
        begin, end = -head, -head + arena[-head - 1]
        end, looked = after(times, arena, begin, end, high)
        total += looked
        if end > begin:
            begin, looked = after(times, arena, begin, end, low - 1)
            total += looked
        begins[i], counts[i] = begin, end - begin
    return total


@bounded("len(mine) == len(theirs) and len(begins) == len(counts)")
@kernel
def fill(
    begins: Column, counts: Column, arena: Column, row: int, nth: int, mine: Column, theirs: Column
) -> None:
    """Write as many of the pairs that `find` found as there is room for, from the n-th pair of a row on."""
    place = 0
    for i in range(row, len(begins)):
        for k in range(nth, counts[i]):
            if place == len(mine):
                return
            mine[place] = i
            theirs[place] = arena[begins[i] + k] if begins[i] >= 0 else -begins[i] - 1
            place += 1
        nth = 0


# A list of n rows takes one place and the next power of two, at most 2 n; a list of one row is tried in two.
@bounded("len(out) >= 2 * kept.sum() + 2", "heads.ndim == 1")
@kernel
def keep(kept: Column, heads: Column, arena: Column, out: Column) -> int:
    """Write the lists without rows that are not kept, and number the others anew in their order."""
    places = np.empty(len(kept), np.int64)
    count = 0
    for i in range(len(kept)):
        places[i] = count
        count += kept[i]
    used = 0
    for key in range(len(heads)):
        head = heads[key]
        if head == 0:
            continue
        if head > 0:
            heads[key] = places[head - 1] + 1 if kept[head - 1] else 0
            continue
        size = 0
        for k in range(-head, -head + arena[-head - 1]):
            if kept[arena[k]]:
                out[used + 1 + size] = places[arena[k]]
                size += 1
        if size < 2:
            heads[key] = out[used + 1] + 1 if size == 1 else 0
            continue
        out[used] = size
        heads[key] = -(used + 1)
        used += 1 + room_for(size)
    return used
