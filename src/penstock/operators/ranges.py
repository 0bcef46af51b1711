"""Parts of many overlapping ranges of rows, at a cost that follows the rows and not rows times ranges.

Windows that overlap share most of their panes. To merge the panes of each window anew costs panes × windows:
39 million rows for windows of an hour, one a second, over 10,800 events. Here ranges that have rows in
common form a batch. What all of them share is merged once; the rows to the left and to the right of it
become running totals, and a range is one of the left and one of the right. Nothing is subtracted, so this
holds for every aggregate whose parts can be merged in any order, and gives what merging row by row gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import readonly
from penstock.operators import _range_kernels as kernels
from penstock.operators.partials import EVENTS, Figures

Numbers = npt.NDArray[np.int64]
Merge = Callable[[pl.DataFrame, Numbers], pl.DataFrame]
PIECE_BYTES = 32 << 20
"""Merged parts that are in memory at once, about; a single range may have more."""
_ID = "range.id"
_FEWER = 1 / 1024


@dataclass(frozen=True, slots=True)
class Ranges:
    """Rows ``[firsts, ends)`` of a frame of parts; both ascend, and no range is empty."""

    firsts: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.firsts)

    def __getitem__(self, some: slice) -> Ranges:
        return Ranges(self.firsts[some], self.ends[some])

    @property
    def rows(self) -> int:
        """How many rows all ranges have together."""
        return int((self.ends - self.firsts).sum())


def merged_ranges(
    parts: pl.DataFrame, ranges: Ranges, figures: Figures, time: str
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield the parts of the ranges, a row each, in pieces of bounded size after the number of their first.

    Aggregates that keep every value (``Aggregate.combines`` is false) gain nothing from totals on the way:
    the values of each range are put together once.
    """
    small, large = (
        replace(figures, aggregates=tuple((n, a) for n, a in figures.aggregates if a.combines is combines))
        for combines in (True, False)
    )
    weights = np.concatenate([[0], np.cumsum(parts[EVENTS].fill_null(1).to_numpy())])
    each = (weights[ranges.ends] - weights[ranges.firsts]) * _bytes_per_event(parts)
    first, share = 0, 1.0
    while first < len(ranges):
        sizes = np.cumsum(each[first:])
        count = max(1, int(np.searchsorted(sizes * share, PIECE_BYTES, "right")))
        some = ranges[first : first + count]
        made = [
            way(parts, some, partial(_merged, of, time))
            for way, of in ((_by_totals, small), (_one_by_one, large))
            if of.aggregates
        ]
        whole = made[0].hstack(made[1].drop(EVENTS)) if len(made) > 1 else made[0]
        yield first, whole
        # Parts that do not grow with the events take less than was feared: larger pieces from now on.
        share = min(1.0, max(_FEWER, 2 * whole.estimated_size() / max(1.0, float(sizes[count - 1]))))
        first += count


def _merged(figures: Figures, time: str, rows: pl.DataFrame, ids: Numbers) -> pl.DataFrame:
    """Merge the rows of each id, which ascend, into one row."""
    numbered = rows.with_columns(pl.Series(_ID, ids).set_sorted())
    made = numbered.group_by(_ID, maintain_order=True).agg(figures.merged(time)).drop(_ID)
    return made.with_columns(figures.settled(time, merged=True))


def _bytes_per_event(parts: pl.DataFrame) -> float:
    return parts.estimated_size() / max(1, int(parts[EVENTS].sum() or 0))


def _one_by_one(parts: pl.DataFrame, ranges: Ranges, merge: Merge) -> pl.DataFrame:
    rows, ids = _spread(ranges.firsts, ranges.ends)
    return merge(parts[rows], ids)


def _by_totals(parts: pl.DataFrame, ranges: Ranges, merge: Merge) -> pl.DataFrame:
    """Merge each range from two running totals (van Herk, Gil and Werman)."""
    firsts, ends = readonly(ranges.firsts), readonly(ranges.ends)
    starts = np.empty(len(ranges), np.int64)
    starts = starts[: kernels.batches(firsts, ends, starts)]
    lasts = np.append(starts[1:], len(ranges)) - 1
    has_core = np.flatnonzero(firsts[lasts] < ends[starts])
    rows, ids = _spread(firsts[lasts[has_core]], ends[starts[has_core]])
    shared = merge(parts[rows], ids)
    cores = np.full(len(starts), kernels.NOTHING)
    cores[has_core] = parts.height + np.arange(len(has_core))
    room = len(starts) + int(firsts[-1] - firsts[0] + ends[-1] - ends[0])
    tape, ranks = np.empty(room, np.int64), np.empty(room, np.int64)
    lefts, rights = np.empty(len(ranges), np.int64), np.empty(len(ranges), np.int64)
    length = kernels.lay_out(firsts, ends, starts, cores, tape, ranks, lefts, rights)
    known = pl.concat([parts.select(shared.columns), shared])
    totals = running_totals(known[tape[:length]], ranks[:length], merge)
    both = np.stack([lefts, rights], axis=1).ravel()
    there = both != kernels.NOTHING
    return merge(totals[both[there]], np.repeat(np.arange(len(ranges)), 2)[there])


def running_totals(rows: pl.DataFrame, ranks: Numbers, merge: Merge) -> pl.DataFrame:
    """Merge each row with all that come before it in its segment; a rank of 0 begins a segment.

    Two merges per row, in as many vectorised steps as the longest segment has doublings (Brent and Kung).
    """
    if not len(ranks) or ranks.max() == 0:
        return rows
    odd = np.flatnonzero(ranks & 1)
    pairs = merge(rows[np.stack([odd - 1, odd], axis=1).ravel()], np.repeat(np.arange(len(odd)), 2))
    totals = running_totals(pairs, ranks[odd] >> 1, merge)
    begins, even = np.flatnonzero(ranks == 0), np.flatnonzero((ranks & 1 == 0) & (ranks > 0))
    before = np.searchsorted(odd, even - 1)
    both = pl.concat([totals[before], rows.select(totals.columns)[even]])
    places = np.stack([np.arange(len(even)), len(even) + np.arange(len(even))], axis=1).ravel()
    rest = merge(both[places], np.repeat(np.arange(len(even)), 2))
    order = np.argsort(np.concatenate([begins, odd, even]))
    return pl.concat([rows.select(totals.columns)[begins], totals, rest])[order]


def _spread(firsts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows of all ranges one after the other, and the number of the range of each."""
    counts = ends - firsts
    ids = np.repeat(np.arange(len(firsts)), counts)
    within = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
    return firsts[ids] + within, ids
