"""Frames of every type, with nulls, for the property tests."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
from hypothesis import strategies as st

from penstock.frames.types import to_polars
from penstock.topology.schema import Schema

_TIMES = st.datetimes(dt.datetime.fromisoformat("1700-01-01"), dt.datetime.fromisoformat("2200-01-01"))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    **{f"int{b}": st.integers(-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)},
    **{f"uint{b}": st.integers(0, 2**b - 1) for b in (8, 16, 32, 64)},
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=12),
    "binary": st.binary(max_size=12),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": _TIMES,
    "duration": st.timedeltas(dt.timedelta(days=-9999), dt.timedelta(days=9999)),
    "list<int64>": st.lists(st.none() | st.integers(-9, 2**40), max_size=3),
    "struct<p:int32,q:list<string>>": st.fixed_dictionaries(
        {"p": st.none() | st.integers(0, 9), "q": st.none() | st.lists(st.text(max_size=3), max_size=2)}
    ),
}


@st.composite
def frames(draw: st.DrawFn, max_rows: int = 24) -> tuple[pl.DataFrame, Schema]:
    """A frame of one to four columns of any types, and its schema."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    schema = Schema(tuple((f"c{i}", kind) for i, kind in enumerate(kinds)))
    rows = draw(st.integers(0, max_rows))
    data = {}
    for name, kind in schema.columns:
        values = VALUES[kind] if draw(st.booleans()) else st.none() | VALUES[kind]
        data[name] = draw(st.lists(values, min_size=rows, max_size=rows))
    return pl.DataFrame(data, schema=to_polars(schema)), schema
