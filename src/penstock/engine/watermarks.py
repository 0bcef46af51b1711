"""Watermarks of rows: what their source had promised at their own position, taken along to where it decides.

The watermark of a row is the greatest event time that its source gave before it, less the source's lateness.
It depends on positions alone, and not on how the input was cut into epochs and splits. It has two parts:

- Inside of a split its reader knows it. Only rows behind it can be late by it, so only they take it along, in
  a column of their own; most batches have none. In front of an exchange the sender tells late rows apart.
- What earlier splits add is one time for all rows of a split. Splits are read side by side, so only the
  receivers know it, from small frames that tell how far each split has come.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

import polars as pl

from penstock.connect.source import END_OF_TIME
from penstock.operators.event_time import NEVER, WATERMARK
from penstock.operators.stateless import EVALUATE, kept_by
from penstock.topology import specs
from penstock.topology.graph import Spec

Marks = pl.Series | int | None
"""Watermarks of rows: each its own, one for all, or none."""


def without(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows as users know them."""
    return rows.drop(WATERMARK) if WATERMARK in rows.columns else rows


def with_watermarks(rows: pl.DataFrame, marks: Marks) -> pl.DataFrame:
    """Return the rows with their watermarks, if they have any."""
    if marks is None:
        return rows
    column = pl.lit(marks, pl.Int64) if isinstance(marks, int) else marks
    return rows.with_columns(column.alias(WATERMARK))


def with_any(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with a column of watermarks in any case."""
    return rows if WATERMARK in rows.columns else with_watermarks(rows, NEVER)


def at_least(rows: pl.DataFrame, watermark: int | None) -> pl.DataFrame:
    """Return rows with watermarks, none of them below this one."""
    if watermark is None:
        return rows
    return rows.with_columns(pl.max_horizontal(WATERMARK, pl.lit(watermark, pl.Int64)).alias(WATERMARK))


def only_if_any(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without the column of watermarks if no row has one."""
    is_needed = rows.height and rows[WATERMARK].max() != NEVER
    return rows if is_needed else without(rows)


def evaluated(spec: Spec, batch: pl.DataFrame) -> list[tuple[pl.DataFrame, Marks]]:
    """Carry a stateless node out; each row of the answer has the watermark of the row that it came from."""
    evaluate, rows = EVALUATE[type(spec)], without(batch)
    if rows is batch:
        return [(evaluate(spec, rows), None)]
    marks = batch[WATERMARK]
    if isinstance(spec, specs.FilterSpec):
        kept = kept_by(spec, rows)
        return [(rows.filter(kept), marks.filter(kept))]
    if not isinstance(spec, specs.FlatMapSpec):
        return [(evaluate(spec, rows), marks)]
    if hasattr(spec.function, "is_late"):
        late = pl.Series(spec.function.is_late(rows, marks.to_numpy()))
        parts = [(rows.filter(~late), NEVER), (rows.filter(late), END_OF_TIME)]
        return [(evaluate(spec, part), mark) for part, mark in parts if part.height]
    return [(evaluate(spec, part), mark) for part, mark in _runs(rows, marks)]


def _runs(rows: pl.DataFrame, marks: pl.Series) -> Iterator[tuple[pl.DataFrame, int]]:
    """Cut rows, in their order, where the watermark changes: what a flat_map makes of a row is not known."""
    lengths = marks.rle().struct
    first = 0
    for length, mark in zip(lengths.field("len").to_list(), lengths.field("value").to_list(), strict=True):
        yield rows[first : first + length], mark
        first += length


class Reached(NamedTuple):
    """How far a split of a source takes the source's watermark; None: no time was read from it."""

    source: str
    position: int
    watermark: int | None


class Starts:
    """The watermarks at the beginnings of an epoch's splits, as far as the splits before them say."""

    def __init__(self, reached: Iterable[Reached]) -> None:
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for source, position, watermark in reached:
            found[source].append((position, NEVER if watermark is None else watermark))
        self._positions = {source: sorted(position for position, _ in found[source]) for source in found}
        self._before = {
            source: list(accumulate((mark for _, mark in sorted(found[source])), max, initial=NEVER))
            for source in found
        }

    def of(self, source: str, sequence: int) -> int | None:
        """Return the watermark at the start of the split that a frame of a source comes from."""
        if source not in self._positions:
            return None
        before = self._before[source][max(0, bisect_right(self._positions[source], sequence) - 1)]
        return None if before == NEVER else before


def later(*marks: int | None) -> int | None:
    """Return the latest of some watermarks, some of which may not be known."""
    return max((mark for mark in marks if mark is not None), default=None)
