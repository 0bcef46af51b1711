"""Translate a `Schema` to Arrow and Polars, and bring a frame to a schema without loss.

One type name has one Arrow and one Polars form, so a payload needs no schema of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.topology.schema import Schema, split_fields, type_name

_ARROW: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    **{f"int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    "time": pa.time64("ns"),
    "timestamp": pa.timestamp("us"),
    "duration": pa.duration("us"),
}
_POLARS: dict[str, pl.DataType] = {
    "bool": pl.Boolean(),
    **{f"int{bits}": getattr(pl, f"Int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(pl, f"UInt{bits}")() for bits in (8, 16, 32, 64)},
    "float32": pl.Float32(),
    "float64": pl.Float64(),
    "string": pl.String(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "time": pl.Time(),
    "timestamp": pl.Datetime("us"),
    "duration": pl.Duration("us"),
}
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


@lru_cache(maxsize=1024)
def to_arrow(schema: Schema) -> pa.Schema:
    """The Arrow schema in which frames of this schema travel."""
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in schema.columns])


@lru_cache(maxsize=1024)
def to_polars(schema: Schema) -> pl.Schema:
    """The Polars schema that operators see."""
    return pl.Schema({name: polars_type(kind) for name, kind in schema.columns})


def of_frame(df: pl.DataFrame) -> Schema:
    """The schema of a frame. Raises BadArgument for a type that cannot travel."""
    return Schema.of({name: _name_of(dtype) for name, dtype in df.schema.items()})


def empty(schema: Schema) -> pl.DataFrame:
    """A frame of this schema without rows."""
    return pl.DataFrame(schema=to_polars(schema))


def conform(df: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Bring a frame to a schema: its order of columns, its types.

    Casts only where no value can change: wider numbers, categories to strings, all-null columns
    to anything, times of any unit and zone to UTC microseconds (nanoseconds are cut off: event
    time is in microseconds everywhere). Raises ValueError that names the first wrong column.
    """
    wanted = to_polars(schema)
    if df.schema == wanted:
        return df
    if missing := [name for name in schema if name not in df.schema]:
        raise ValueError(f"column '{missing[0]}' is missing: got {df.columns}, wanted {schema[missing[0]]}")
    if extra := [name for name in df.columns if name not in wanted]:
        raise ValueError(f"column '{extra[0]}' was got ({df.schema[extra[0]]}) but is not wanted: {schema}")
    return pl.DataFrame([_cast(df[name], kind, schema[name]) for name, kind in wanted.items()])


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a type name."""
    if kind in _ARROW:
        return _ARROW[kind]
    if kind.startswith("list<"):
        return pa.large_list(pa.field("item", arrow_type(kind[5:-1])))
    return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in _fields(kind)])


def polars_type(kind: str) -> pl.DataType:
    """The Polars type of a type name."""
    if kind in _POLARS:
        return _POLARS[kind]
    if kind.startswith("list<"):
        return pl.List(polars_type(kind[5:-1]))
    return pl.Struct([pl.Field(name, polars_type(inner)) for name, inner in _fields(kind)])


def _fields(kind: str) -> list[tuple[str, str]]:
    parts = [field.partition(":") for field in split_fields(kind[7:-1])]
    return [(name.strip(), inner.strip()) for name, _, inner in parts]


def _name_of(dtype: pl.DataType) -> Any:
    return "string" if isinstance(dtype, pl.Enum) else type_name(dtype)


def _cast(column: pl.Series, wanted: pl.DataType, kind: str) -> pl.Series:
    if column.dtype == wanted:
        return column
    if not _is_lossless(column.dtype, wanted):
        raise ValueError(f"column '{column.name}' has type {column.dtype}, wanted {kind}")
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column.cast(wanted)


def _is_lossless(got: pl.DataType, wanted: pl.DataType) -> bool:
    """Whether every value of one type has its exact equal in the other."""
    if got == wanted or isinstance(got, pl.Null):
        return True
    if isinstance(got, pl.List) and isinstance(wanted, pl.List):
        return _is_lossless(_inner(got.inner), _inner(wanted.inner))
    if isinstance(got, pl.Struct) and isinstance(wanted, pl.Struct):
        pairs = list(zip(got.fields, wanted.fields, strict=False))
        return len(got.fields) == len(wanted.fields) and all(
            a.name == b.name and _is_lossless(_inner(a.dtype), _inner(b.dtype)) for a, b in pairs
        )
    if isinstance(got, pl.Categorical | pl.Enum):
        return isinstance(wanted, pl.String)
    if isinstance(got, pl.Datetime):
        return isinstance(wanted, pl.Datetime)
    if isinstance(got, pl.Duration):
        return isinstance(wanted, pl.Duration)
    return _is_wider(_number(got), _number(wanted))


def _is_wider(got: str, wanted: str) -> bool:
    if got in _SIGNED:
        return wanted in _SIGNED[_SIGNED.index(got) :]
    if got in _UNSIGNED:
        place = _UNSIGNED.index(got)
        return wanted in _UNSIGNED[place:] or wanted in _SIGNED[place + 1 :]
    return got == "float32" and wanted == "float64"


def _number(dtype: pl.DataType) -> str:
    return str(dtype).lower()


def _inner(dtype: Any) -> pl.DataType:
    # Polars lets a nested type be written as a class; an instance is needed to compare.
    kind: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return kind
