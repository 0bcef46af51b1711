"""Windows that overlap: which panes lie in which window, and the figures of the windows that close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.operators.event_time import as_timestamps, times
from penstock.operators.partials import END, START, Combine
from penstock.operators.ranges import Ranges, merged_ranges
from penstock.operators.windows import TimeWindow

Numbers = npt.NDArray[np.int64]
EMITTED_ROWS = 1 << 17
"""Windows that are emitted at once."""
_GROUP = "sliding.group"


@dataclass(frozen=True, slots=True)
class Runs:
    """Windows of a group that follow one another and have the same panes."""

    panes: Ranges
    begins: Numbers
    """The number of the first window: its start in multiples of ``every``."""
    counts: Numbers


def closed_windows(
    partials: pl.DataFrame, combine: Combine, before: int, closed: int
) -> Iterator[pl.DataFrame]:
    """Yield the figures of the windows that start behind ``before`` and not behind ``closed``, in pieces."""
    window, by = combine.window, list(combine.figures.by)
    rows, groups = _by_group(combine.merge(partials), by)
    runs = runs_of(groups, times(rows, START), window, before, closed)
    figures = combine.figures.on(rows.schema)
    for first, parts in merged_ranges(rows, runs.panes, figures, combine.time):
        some = slice(first, first + parts.height)
        made = figures.figured(parts, combine.time)
        if by:
            made = rows.select(by)[runs.panes.firsts[some]].hstack(made)
        ends = np.cumsum(runs.counts[some])
        for at in range(0, int(ends[-1]), EMITTED_ROWS):
            numbers = np.arange(at, min(at + EMITTED_ROWS, int(ends[-1])))
            run = np.searchsorted(ends, numbers, "right")
            nth = numbers - (ends - runs.counts[some])[run]
            starts = (runs.begins[some][run] + nth) * window.every_us
            bounds = [as_timestamps(starts, START), as_timestamps(starts + window.length_us, END)]
            yield made[run].with_columns(bounds).select(*by, START, END, pl.exclude(*by, START, END))


def runs_of(groups: Numbers, panes: Numbers, window: TimeWindow, before: int, closed: int) -> Runs:
    """Find the different sets of panes that windows have; rows are sorted by group and pane.

    A pane comes into a group's windows with the first that it lies in, and leaves behind the last. Between
    two such moments all windows are alike, so their number follows the panes however many windows there are.
    """
    every = window.every_us
    comes, leaves = window.first_start(panes) // every, window.last_start(panes) // every + 1
    moments, of = np.concatenate([comes, leaves]), np.concatenate([groups, groups])
    order = np.lexsort((moments, of))
    moments, of = moments[order], of[order]
    # All panes of the groups before have come and gone, so counting over all groups numbers the rows.
    come = np.cumsum(order < len(panes))
    gone = np.arange(1, len(order) + 1) - come
    is_last = np.append((moments[1:] != moments[:-1]) | (of[1:] != of[:-1]), True)[: len(order)]
    moments, come, gone = moments[is_last], come[is_last], gone[is_last]
    begins = np.maximum(moments, before // every + 1)
    ends = np.minimum(np.append(moments[1:], closed // every + 1)[: len(moments)], closed // every + 1)
    there = (gone < come) & (begins < ends)
    return Runs(Ranges(gone[there], come[there]), begins[there], (ends - begins)[there])


def _by_group(rows: pl.DataFrame, by: list[str]) -> tuple[pl.DataFrame, Numbers]:
    """Sort rows by group, in the order in which groups came, and pane; number the groups."""
    numbered = rows.with_row_index(_GROUP)
    if by:
        numbered = numbered.with_columns(pl.col(_GROUP).min().over(by))
    else:
        numbered = numbered.with_columns(pl.lit(0, pl.UInt32).alias(_GROUP))
    numbered = numbered.sort(_GROUP, START)
    return numbered.drop(_GROUP), numbered[_GROUP].cast(pl.Int64).to_numpy()
