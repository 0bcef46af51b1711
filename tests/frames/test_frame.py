from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.frames.strategies import VALUES, frames

from penstock.errors import InternalError
from penstock.frames.frame import ARROW_SCHEMA, DDL, Frame, decode, decode_all, encode
from penstock.frames.types import empty, of_frame, to_polars
from penstock.topology.schema import Schema

EVERY = Schema(tuple((f"c{i}", kind) for i, kind in enumerate(VALUES)))


@pytest.mark.long
@settings(max_examples=50, deadline=None)
@given(frames())
def test_a_payload_gives_back_the_frame(case: tuple[pl.DataFrame, Schema]) -> None:
    df, schema = case
    assert_frame_equal(decode(encode(df), schema), df, check_exact=True)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(frames(), st.data())
def test_a_cut_and_chunked_frame_travels_like_a_whole_one(
    case: tuple[pl.DataFrame, Schema], data: st.DataObject
) -> None:
    df, schema = case
    at = data.draw(st.integers(0, df.height))
    start = data.draw(st.integers(0, at))
    chunked = pl.concat([df[start:at], df[at:]], rechunk=False)
    assert_frame_equal(decode(encode(chunked), schema), df[start:], check_exact=True)
    joined = decode_all([encode(df[start:at]), encode(df[at:])], schema)
    assert_frame_equal(joined, df[start:], check_exact=True)


def test_an_empty_frame_keeps_every_type() -> None:
    assert_frame_equal(decode(encode(empty(EVERY)), EVERY), empty(EVERY))


def test_no_payloads_are_an_empty_frame() -> None:
    assert_frame_equal(decode_all([], EVERY), empty(EVERY))


def test_a_payload_may_be_a_view_at_any_address() -> None:
    df = pl.DataFrame({"a": [1, 2, 70_000], "b": [1.5, None, 2.5], "s": ["x", None, "zz"]})
    for shift in range(8):
        view = memoryview(bytes(shift) + encode(df))[shift:]
        assert_frame_equal(decode(view, of_frame(df)), df)
        assert_frame_equal(decode_all([view, view], of_frame(df)), pl.concat([df, df]))


@pytest.mark.parametrize(("span", "bytes_each"), [(0, 0), (255, 1), (256, 2), (65_536, 4), (2**32, 8)])
@pytest.mark.parametrize("base", [0, -5, 1_700_000_000_000_000])
def test_integers_travel_in_the_width_of_their_range(base: int, span: int, bytes_each: int) -> None:
    df = pl.DataFrame({"a": [base + span * n // 9_999 for n in range(10_000)]})
    assert len(encode(df)) == pytest.approx(10_000 * bytes_each, abs=400)
    assert_frame_equal(decode(encode(df), of_frame(df)), df)


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt64, pl.Datetime("us")], ids=str)
@pytest.mark.parametrize(("different", "bytes_each"), [(2, 1), (90, 1), (256, 1), (257, 8), (5_000, 8)])
def test_few_different_values_travel_as_their_numbers(
    kind: pl.DataType, different: int, bytes_each: int
) -> None:
    values = [(n**3 * 0x9E3779B97F4A7C15) >> 2 & (1 << 61) - 1 for n in range(different)]
    rare = pl.Series([0] * (40_000 - different) + values)  # a sample would not show how many there are
    df = pl.DataFrame({"a": rare.cast(kind), "b": ["alike"] * 40_000, "c": (-1 - rare).cast(pl.Int64)})
    back = decode(encode(df), of_frame(df))
    assert_frame_equal(back, df)
    assert_frame_equal(decode_all([encode(df[7:30]), encode(df)], of_frame(df)), pl.concat([df[7:30], df]))
    assert len(encode(df)) == pytest.approx(2 * 40_000 * bytes_each, abs=400 + 2 * 8 * min(different, 256))


def test_bytes_that_are_all_the_same_travel_once() -> None:
    df = pl.DataFrame(
        {"a": pl.Series([7] * 10_000, dtype=pl.UInt8), "b": pl.Series([-1] * 10_000, dtype=pl.Int8)}
    )
    assert len(encode(df)) < 400
    assert_frame_equal(decode(encode(df), of_frame(df)), df)


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt64, pl.Int32, pl.UInt16], ids=str)
def test_the_ends_of_a_type_are_exact(kind: type[pl.DataType]) -> None:
    dtype = kind()
    low, high = pl.select(dtype.min()).item(), pl.select(dtype.max()).item()  # type: ignore[attr-defined]
    for values in ([low, high], [low, low + 1], [high - 1, None, high]):
        df = pl.DataFrame({"a": pl.Series(values, dtype=kind)})
        assert_frame_equal(decode(encode(df), of_frame(df)), df)


def test_nan_and_minus_zero_keep_their_bits() -> None:
    df = pl.DataFrame({"a": [np.nan, -0.0, np.inf]})
    back = decode(encode(df), of_frame(df))["a"].to_numpy()
    assert back.view(np.int64).tolist() == df["a"].to_numpy().view(np.int64).tolist()


def test_a_payload_of_another_format_is_refused() -> None:
    with pytest.raises(InternalError):
        decode(b"\xff" + encode(pl.DataFrame({"a": [1]}))[1:], Schema.of({"a": int}))


def test_arrow_and_spark_see_the_fields_of_a_frame_in_order() -> None:
    names = [field.name for field in dataclasses.fields(Frame)]
    assert ARROW_SCHEMA.names == names
    assert [column.split()[0] for column in DDL.split(", ")] == names
    assert DDL.startswith("address BIGINT, node STRING, slice INT,")


@pytest.mark.long
def test_a_frame_becomes_a_row_of_arrow() -> None:
    frame = Frame(1, "dns", 2, "in", "spout", 3, 4, 5, 6, None, 7, 8, b"x")
    table = pa.Table.from_pylist([dataclasses.asdict(frame)], schema=ARROW_SCHEMA)
    assert Frame(**table.to_pylist()[0]) == frame


@pytest.mark.parametrize("word", ["", "alike", "länger als acht Bytes", None])
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_words_that_are_all_alike_travel_once(word: str | None, kind: str) -> None:
    value = word.encode() if word is not None and kind == "binary" else word
    schema = Schema((("n", "int64"), ("word", kind), ("more", "string"), ("last", "string")))
    rows = pl.DataFrame(
        {"n": range(5_000), "word": [value] * 5_000, "more": ["x", "y"] * 2_500, "last": ["z"] * 5_000},
        schema=to_polars(schema),
    )
    payload = encode(rows)
    assert decode(payload, schema).equals(rows)
    assert decode_all([payload, encode(rows[:1]), encode(rows[:0]), payload], schema).height == 10_001
    assert len(payload) < 2 * 5_000 + 5 * 5_000 + 2_000
