"""What Delta can hold: column types, the values as stored, and the statistics of a data file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl
from deltalake import Field
from deltalake import Schema as DeltaSchema

from penstock.frames.types import empty
from penstock.topology.schema import Schema

# The Delta protocol knows signed integers only, and neither time nor duration.
_STORED: Mapping[Any, Any] = {
    pl.UInt8: pl.Int16,
    pl.UInt16: pl.Int32,
    pl.UInt32: pl.Int64,
    pl.UInt64: pl.Decimal(20, 0),
    pl.Time: pl.Int64,
    pl.Duration: pl.Int64,
}
_ORDERED = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Date, pl.Datetime)


def delta_fields(schema: Schema) -> list[Field]:
    """The table's columns for a stream's schema."""
    stored = storable(empty(schema)).to_arrow()
    return list(DeltaSchema.from_arrow(stored.schema).fields)


def storable(df: pl.DataFrame) -> pl.DataFrame:
    """The rows in types that Delta has. No value changes its meaning."""
    casts = {name: wanted for name, kind in df.schema.items() if (wanted := _stored_type(kind)) != kind}
    return df.cast(casts) if casts else df  # type: ignore[arg-type]


def statistics(df: pl.DataFrame) -> str:
    """What readers use to skip a file: rows, nulls, smallest and greatest values."""
    ordered = [name for name, kind in df.schema.items() if kind.base_type() in _ORDERED]
    bounds = df.select(ordered)
    low, high = (_bounds(frame) for frame in (bounds.min(), bounds.max()))
    nulls = {name: df[name].null_count() for name, kind in df.schema.items() if not kind.is_nested()}
    return json.dumps({"numRecords": df.height, "minValues": low, "maxValues": high, "nullCount": nulls})


def _bounds(one_row: pl.DataFrame) -> dict[str, Any]:
    values = one_row.row(0, named=True) if one_row.width else {}
    return {
        name: value if isinstance(value, int) else _moment(value)
        for name, value in values.items()
        if value is not None
    }


def _moment(value: Any) -> str:
    # Delta truncates to milliseconds; a greatest value must not become smaller, microseconds keep it.
    text: str = value.isoformat(timespec="microseconds") if hasattr(value, "hour") else value.isoformat()
    return text


def _stored_type(kind: Any) -> Any:
    if isinstance(kind, pl.List):
        return pl.List(_stored_type(kind.inner))
    if isinstance(kind, pl.Struct):
        return pl.Struct({field.name: _stored_type(field.dtype) for field in kind.fields})
    base = kind.base_type() if hasattr(kind, "base_type") else kind
    return _STORED.get(base, kind)
