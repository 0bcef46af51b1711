"""Column types at the border to Spark's own rows."""

from __future__ import annotations

from typing import cast

import polars as pl
import pyarrow as pa

from penstock.frames.types import conform, to_polars
from penstock.topology.schema import Schema, split_fields

_DDL = {
    "bool": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "uint8": "SMALLINT",
    "uint16": "INT",
    "uint32": "BIGINT",
    "uint64": "DECIMAL(20,0)",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "time": "BIGINT",
    "timestamp": "TIMESTAMP_NTZ",
    "duration": "BIGINT",
}
_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DECIMAL(20,0)": pa.decimal128(20, 0),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
}


def to_ddl(schema: Schema) -> str:
    """The schema as Spark writes it. Times of day and durations are whole numbers there."""
    return ", ".join(f"`{name}` {_ddl_type(kind)}" for name, kind in schema.columns)


def to_spark_batch(table: pa.Table, schema: Schema) -> pa.RecordBatch:
    """Rows in the Arrow types that Spark expects for ``to_ddl``."""
    fields = [pa.field(name, _arrow_type(kind)) for name, kind in schema.columns]
    columns = [
        _plain(table.column(name), kind).cast(field.type)
        for (name, kind), field in zip(schema.columns, fields, strict=True)
    ]
    cast_table = pa.table(columns, schema=pa.schema(fields)).combine_chunks()
    batches = cast_table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=pa.schema(fields))


def from_spark(batch: pa.RecordBatch, schema: Schema) -> pl.DataFrame:
    """Rows of Spark as a frame of the declared columns; raises ValueError where they do not fit."""
    frame = cast(pl.DataFrame, pl.from_arrow(batch))
    wanted = to_polars(schema)
    known = [name for name in frame.columns if name in wanted]
    return conform(frame.with_columns(_fitting(frame[name], wanted[name]) for name in known), schema)


def _fitting(column: pl.Series, wanted: pl.DataType) -> pl.Series:
    """Return the column in the wanted type; raises ValueError for numbers that are others there."""
    if column.dtype == wanted:
        return column
    try:
        found = column.cast(wanted)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"column '{column.name}' has values that {wanted} does not hold: {error}") from error
    if column.dtype.is_numeric() and wanted.is_numeric():
        if column.dtype.is_float() and wanted.is_float():  # rounded as its type says, but not to infinity
            changed = found.is_infinite() & column.is_finite()
        else:
            changed = found.cast(column.dtype, strict=False).ne_missing(column)
        if changed.any():
            got = column.filter(changed)[0]
            raise ValueError(f"column '{column.name}' has the value {got}, which {wanted} does not hold")
    return found


def _plain(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if kind in ("time", "duration") else column


def _ddl_type(kind: str) -> str:
    if kind in _DDL:
        return _DDL[kind]
    if kind.startswith("list<"):
        return f"ARRAY<{_ddl_type(kind[5:-1])}>"
    fields = [field.partition(":") for field in split_fields(kind[7:-1])]
    return (
        "STRUCT<"
        + ", ".join(f"`{name.strip()}`: {_ddl_type(inner.strip())}" for name, _, inner in fields)
        + ">"
    )


def _arrow_type(kind: str) -> pa.DataType:
    if kind in _DDL:
        return _ARROW[_DDL[kind]]
    if kind.startswith("list<"):
        return pa.list_(_arrow_type(kind[5:-1]))
    fields = [field.partition(":") for field in split_fields(kind[7:-1])]
    return pa.struct([pa.field(name.strip(), _arrow_type(inner.strip())) for name, _, inner in fields])
