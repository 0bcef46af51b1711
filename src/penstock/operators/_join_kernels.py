"""Numba kernels of the join: rows of a key as chains, the newest first."""

from __future__ import annotations

import numpy as np

from penstock.frames._jit import Column, kernel


@kernel
def count_pairs(
    keys: Column, times: Column, heads: Column, following: Column, others: Column, within: int, out: Column
) -> int:
    """How many rows of the other side lie within the distance of each row; gives their sum."""
    total = 0
    for i in range(len(keys)):
        found = 0
        if keys[i] >= 0:
            at = heads[keys[i]] - 1
            while at >= 0:
                if -within <= times[i] - others[at] <= within:
                    found += 1
                at = following[at] - 1
        out[i] = found
        total += found
    return total


@kernel
def fill_pairs(
    keys: Column, times: Column, heads: Column, following: Column, others: Column, within: int,
    counts: Column, mine: Column, theirs: Column,
) -> None:  # fmt: skip
    """The pairs that `count_pairs` counted: for each row the other's rows in the order of their arrival."""
    done = 0
    for i in range(len(keys)):
        if counts[i] == 0:
            continue
        done += counts[i]
        place = done
        at = heads[keys[i]] - 1
        while at >= 0:
            if -within <= times[i] - others[at] <= within:
                place -= 1
                mine[place] = i
                theirs[place] = at
            at = following[at] - 1


@kernel
def link(keys: Column, first: int, heads: Column, following: Column) -> None:
    """Put rows, of which the first has position `first`, in front of the chains of their keys."""
    for i in range(len(keys)):
        following[first + i] = 0
        if keys[i] >= 0:
            following[first + i] = heads[keys[i]]
            heads[keys[i]] = first + i + 1


@kernel
def relink(kept: Column, following: Column, heads: Column) -> None:
    """Take rows that are not kept out of their chains, and number the others anew in their order."""
    places = np.zeros(len(kept) + 1, np.int64)
    count = 0
    for i in range(len(kept)):
        before = places[following[i]]  # rows further back in a chain came earlier: they have their place
        if kept[i]:
            following[count] = before
            count += 1
            places[i + 1] = count
        else:
            places[i + 1] = before
    for row in range(len(heads)):
        heads[row] = places[heads[row]]
