"""How each stateless kind of node is carried out on a batch. The table is complete at import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from penstock.errors import InternalError
from penstock.frames.types import to_polars
from penstock.operators.per_event import PerEvent
from penstock.topology import specs
from penstock.topology.schema import Schema


def run_map(spec: specs.MapSpec, batch: pl.DataFrame) -> pl.DataFrame:
    """One row out for each row in."""
    if isinstance(spec.function, PerEvent):
        return _each(spec.function, batch, spec.returns or spec.function.returns)
    made: pl.DataFrame = spec.function(batch)
    if isinstance(made, pl.DataFrame) and made.height != batch.height:
        raise ValueError(
            f"map made {made.height} rows of {batch.height}; use flat_map or filter to change their number"
        )
    return made


def run_flat_map(spec: specs.FlatMapSpec, batch: pl.DataFrame) -> pl.DataFrame:
    """Any number of rows out."""
    if not isinstance(spec.function, PerEvent):
        made: pl.DataFrame = spec.function(batch)
        return made
    schema = spec.returns or spec.function.returns
    each = spec.function.function
    return _frame([one for row in batch.iter_rows(named=True) for one in each(row)], schema)


def run_filter(spec: specs.FilterSpec, batch: pl.DataFrame) -> pl.DataFrame:
    """The rows that stay."""
    if isinstance(spec.keep, pl.Expr):
        return batch.filter(spec.keep)
    if isinstance(spec.keep, PerEvent):
        kept = [bool(spec.keep.function(row)) for row in batch.iter_rows(named=True)]
        return batch.filter(pl.Series(kept, dtype=pl.Boolean))
    return batch.filter(spec.keep(batch))


def kept_by(spec: specs.FilterSpec, batch: pl.DataFrame) -> pl.Series:
    """Return which rows a filter keeps."""
    if isinstance(spec.keep, PerEvent):
        kept: Any = [bool(spec.keep.function(row)) for row in batch.iter_rows(named=True)]
    else:
        kept = spec.keep if isinstance(spec.keep, pl.Expr) else spec.keep(batch)
    if isinstance(kept, pl.Expr):
        kept = batch.select(pl.all_horizontal(kept).alias("kept"))["kept"]
    mask = pl.Series(kept, dtype=pl.Boolean).fill_null(value=False)
    return mask.new_from_index(0, batch.height) if len(mask) == 1 else mask


def run_union(spec: specs.UnionSpec, batch: pl.DataFrame) -> pl.DataFrame:
    """The rows as they are."""
    return batch


def _each(each: PerEvent, batch: pl.DataFrame, schema: Schema | None) -> pl.DataFrame:
    return _frame([each.function(row) for row in batch.iter_rows(named=True)], schema)


def _frame(rows: list[Any], schema: Schema | None) -> pl.DataFrame:
    if schema is None:
        return pl.DataFrame(rows, infer_schema_length=None)
    for row in rows:
        if not isinstance(row, dict) or row.keys() - set(schema.names):
            raise ValueError(f"per_event must give dicts with the columns ({schema}), got {row!r}")
    return pl.DataFrame(rows, schema=to_polars(schema), strict=True)


EVALUATE: dict[type, Callable[[Any, pl.DataFrame], pl.DataFrame]] = {
    specs.MapSpec: run_map,
    specs.FlatMapSpec: run_flat_map,
    specs.FilterSpec: run_filter,
    specs.UnionSpec: run_union,
}
if set(EVALUATE) != set(specs.STATELESS):
    raise InternalError(what=f"no evaluation for {set(specs.STATELESS) ^ set(EVALUATE)}")
