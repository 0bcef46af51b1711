"""Numba kernels of click streams: equal numbers found, users followed, patterns counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.frames._kernels import folded, mix

NONE = np.uint64(0)
"""No page: a hash that a page has once in 2**64."""


@step
def _home(bits: Any, mask: int) -> int:
    return int(np.int64(mix(np.uint64(bits))) & mask)


@bounded(
    "len(numbers) == len(firsts) == len(hashes) < len(slots)",
    "is_power_of_two(len(slots))",
)
@kernel
def numbered(hashes: Column, slots: Column, numbers: Column, firsts: Column) -> int:
    """Number equal hashes equally, from 0 on; ``firsts`` gets where each comes first. Gives how many differ.

    ``slots`` are zeros, a power of two of them and more than there are hashes.
    """
    mask, count = len(slots) - 1, 0
    for i in range(len(hashes)):
        at = _home(hashes[i], mask)
        while slots[at] != 0 and hashes[firsts[slots[at] - 1]] != hashes[i]:
            at = (at + 1) & mask
        if slots[at] == 0:
            firsts[count] = i
            count += 1
            slots[at] = count
        numbers[i] = slots[at] - 1
    return count


@bounded(
    "len(users) == len(pages) == len(at) == found.shape[1] and found.shape[0] == len(last) + 1",
    "all(len(page) == len(seen) for page in last)",
)
@kernel
def follow_pages(
    users: Column, pages: Column, at: Column, away: int, seen: Column, last: tuple[Column, ...], found: Column
) -> None:
    """The sequence that each visit ends, in ``found``; its first page is NONE where there is none."""
    earlier = len(last)
    for i in range(len(users)):
        user = users[i]
        if at[i] - seen[user] > away:
            for j in range(earlier):
                last[j][user] = NONE
        seen[user] = at[i]
        found[0, i] = NONE
        if pages[i] == last[earlier - 1][user]:
            continue
        for j in range(earlier):
            found[j, i] = last[j][user]
        found[earlier, i] = pages[i]
        for j in range(earlier - 1):
            last[j][user] = last[j + 1][user]
        last[earlier - 1][user] = pages[i]


@bounded(
    "len(panes) == found.shape[1] < len(slots) and is_power_of_two(len(slots))",
    "min(len(patterns), len(firsts), len(visits)) >= found.shape[1]",
)
@kernel
def count_sequences(
    found: Column, panes: Column, slots: Column, patterns: Column, firsts: Column, visits: Column
) -> int:
    """Count equal sequences of equal panes: where each comes first, its hash, its number; how many differ."""
    mask, count = len(slots) - 1, 0
    for i in range(found.shape[1]):
        if found[0, i] == NONE:
            continue
        pattern = NONE
        for j in range(found.shape[0]):
            pattern = folded(pattern, found[j, i])
        at = _home(pattern + np.uint64(panes[i]), mask)
        while slots[at] != 0:
            known = slots[at] - 1
            if patterns[known] == pattern and panes[firsts[known]] == panes[i]:
                break
            at = (at + 1) & mask
        if slots[at] == 0:
            patterns[count], firsts[count], visits[count] = pattern, i, 0
            count += 1
            slots[at] = count
        visits[slots[at] - 1] += 1
    return count


@bounded(
    "len(users) == len(pages) == len(steps) == len(at) == len(found)",
    "len(seen) == len(last) == len(places) and len(bits) == 2",
)
@kernel
def follow_steps(
    users: Column,
    pages: Column,
    steps: Column,
    at: Column,
    away: int,
    bits: Column,
    seen: Column,
    last: Column,
    places: Column,
    found: Column,
) -> None:
    """Shift-And: a bit of ``places`` says that a user has come to that step of a pattern.

    ``bits`` are the first steps of the patterns and the steps that others may follow later.
    """
    firsts, waits, one = bits[0], bits[1], np.uint64(1)
    for i in range(len(users)):
        user = users[i]
        if at[i] - seen[user] > away:
            places[user], last[user] = np.uint64(0), NONE
        seen[user] = at[i]
        found[i] = np.uint64(0)
        if pages[i] == last[user]:
            continue
        last[user] = pages[i]
        found[i] = ((places[user] << one) | firsts) & steps[i]
        places[user] = found[i] | (places[user] & waits)
