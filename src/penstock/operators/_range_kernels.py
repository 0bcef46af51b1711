"""Numba kernels that lay out ranges of neighbouring rows for merging by running totals."""

from __future__ import annotations

from penstock.frames._jit import Column, bounded, kernel

NOTHING = -1


@bounded("len(firsts) == len(ends) <= len(starts)")
@kernel
def batches(firsts: Column, ends: Column, starts: Column) -> int:
    """Cut ranges into batches that share a row or a border; return how many, with their starts in `starts`.

    Firsts and ends ascend, so the rows from the last's first to the first's end lie in all ranges of a batch.
    """
    count = 0
    for i in range(len(firsts)):
        if count == 0 or firsts[i] > ends[starts[count - 1]]:
            starts[count] = i
            count += 1
    return count


# The tape has the core of each batch, and the rows that its firsts and its ends span. Firsts and ends ascend
# over all batches, so these spans add up to less than those of all ranges.
@bounded(
    "len(lefts) == len(rights) == len(firsts) == len(ends) and len(cores) == len(starts)",
    "len(rows) == len(ranks) >= len(starts)",
    "not len(firsts) or len(rows) - len(starts) >= firsts[-1] - firsts[0] + ends[-1] - ends[0]",
)
@kernel
def lay_out(
    firsts: Column, ends: Column, starts: Column, cores: Column, rows: Column, ranks: Column, lefts: Column,
    rights: Column,
) -> int:  # fmt: skip
    """Write the tape: per batch its core and the rows before it, backwards; then the rows behind it.

    A range is the running total at `lefts` and the one at `rights`, where both are there. `cores` numbers
    the core of each batch among the rows, or is NOTHING. Return the length of the tape.
    """
    at = 0
    for batch in range(len(starts)):
        begin = starts[batch]
        last = (starts[batch + 1] if batch + 1 < len(starts) else len(firsts)) - 1
        left = at
        if cores[batch] != NOTHING:
            rows[at], ranks[at] = cores[batch], 0
            at += 1
        core = at - left
        for row in range(firsts[last] - 1, firsts[begin] - 1, -1):
            rows[at], ranks[at] = row, at - left
            at += 1
        right = at
        for row in range(ends[begin], ends[last]):
            rows[at], ranks[at] = row, at - right
            at += 1
        for i in range(begin, last + 1):
            before, behind = core + firsts[last] - firsts[i], ends[i] - ends[begin]
            lefts[i] = left + before - 1 if before > 0 else NOTHING
            rights[i] = right + behind - 1 if behind > 0 else NOTHING
    return at
