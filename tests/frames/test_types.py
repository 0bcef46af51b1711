from __future__ import annotations

import datetime as dt

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from polars.testing import assert_frame_equal
from tests.frames.strategies import VALUES, frames

from penstock.frames.types import conform, empty, of_frame, to_arrow, to_polars
from penstock.topology.schema import Schema

EVERY = Schema(tuple((f"c{i}", kind) for i, kind in enumerate(VALUES)))


def test_every_type_has_the_arrow_form_in_which_polars_gives_it() -> None:
    assert empty(EVERY).to_arrow().schema == to_arrow(EVERY)


def test_every_type_survives_the_way_through_polars() -> None:
    assert of_frame(empty(EVERY)) == EVERY


def test_strings_travel_as_large_strings() -> None:
    assert to_arrow(Schema.of({"s": str})).field("s").type == pa.large_string()


@settings(max_examples=15, deadline=None)
@given(frames())
def test_a_frame_of_the_schema_conforms_as_it_is(case: tuple[pl.DataFrame, Schema]) -> None:
    df, schema = case
    assert conform(df, schema) is df


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (pl.Series([1, None], dtype=pl.Int32), "int64"),
        (pl.Series([255], dtype=pl.UInt8), "int16"),
        (pl.Series([2**32 - 1], dtype=pl.UInt32), "int64"),
        (pl.Series([0.5], dtype=pl.Float32), "float64"),
        (pl.Series(["a", "b"], dtype=pl.Categorical), "string"),
        (pl.Series(["a"], dtype=pl.Enum(["a", "b"])), "string"),
        (pl.Series([None, None]), "struct<p:int64>"),
        (pl.Series([[1], None], dtype=pl.List(pl.Int8)), "list<int32>"),
        (pl.Series([[], None], dtype=pl.List(pl.Null)), "list<string>"),
        (pl.Series([dt.timedelta(seconds=1)], dtype=pl.Duration("ms")), "duration"),
    ],
    ids=str,
)
def test_a_cast_without_loss_is_made(got: pl.Series, wanted: str) -> None:
    answer = conform(got.to_frame("x"), Schema.of({"x": wanted}))
    assert answer.schema == to_polars(Schema.of({"x": wanted}))
    assert answer["x"].to_list() == got.to_list()


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Lisbon"])
def test_times_of_any_unit_and_zone_become_utc_microseconds(unit: str, zone: str | None) -> None:
    moment = dt.datetime.fromisoformat("2024-07-01T12:00:00.123")
    column = pl.Series([moment]).dt.replace_time_zone("UTC").cast(pl.Datetime(unit, "UTC"))  # type: ignore[arg-type]
    got = column.dt.replace_time_zone(None) if zone is None else column.dt.convert_time_zone(zone)
    answer = conform(got.to_frame("t"), Schema.of({"t": "timestamp"}))
    assert answer["t"].to_list() == [moment]
    assert answer["t"].dtype == pl.Datetime("us")


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (pl.Int64, "int32"),
        (pl.Int64, "float64"),
        (pl.Int32, "uint64"),
        (pl.UInt64, "int64"),
        (pl.Float64, "float32"),
        (pl.Float64, "int64"),
        (pl.String, "int64"),
        (pl.Int64, "string"),
        (pl.Boolean, "int64"),
        (pl.Date, "timestamp"),
        (pl.List(pl.Int64), "list<int32>"),
        (pl.Struct({"p": pl.Int64}), "struct<q:int64>"),
    ],
    ids=str,
)
def test_a_cast_that_could_lose_is_refused_by_the_columns_name(got: pl.DataType, wanted: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s)'odd'.*{wanted}"):
        conform(pl.DataFrame(schema={"odd": got}), Schema.of({"odd": wanted}))


def test_columns_are_brought_into_the_schemas_order() -> None:
    answer = conform(pl.DataFrame({"b": ["x"], "a": [1]}), Schema.of({"a": int, "b": str}))
    assert_frame_equal(answer, pl.DataFrame({"a": [1], "b": ["x"]}))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="'b' is missing"):
        conform(pl.DataFrame({"a": [1]}), Schema.of({"a": int, "b": str}))


def test_a_column_too_many_is_named() -> None:
    with pytest.raises(ValueError, match="'b' was got"):
        conform(pl.DataFrame({"a": [1], "b": [2]}), Schema.of({"a": int}))
