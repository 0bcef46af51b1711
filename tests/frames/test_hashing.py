from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.frames.hashing import stable_hash

INTS = [0, 1, -1, 42, 2**63 - 1]
KEYS = pl.Series(INTS)
WORDS = pl.Series(["", "a", "penstock", "a longer string of bytes", None])
GOLDEN_INTS = [
    16294208416658607535,
    10451216379200822465,
    16490336266968443936,
    13679457532755275413,
    3055647633038352039,
]
GOLDEN_WORDS = [
    16294208416658607535,
    8944871937958172654,
    14707914007347012325,
    14966160063811762767,
    3246858695411730098,
]
GOLDEN_PAIR = [
    1906727619531543460,
    6304690089084674732,
    4904023329690213662,
    8466766921273218673,
    17188549185105948495,
]


def test_hashes_of_integers_are_those_of_every_release() -> None:
    assert stable_hash([KEYS]).tolist() == GOLDEN_INTS


def test_hashes_of_strings_are_those_of_every_release() -> None:
    assert stable_hash([WORDS]).tolist() == GOLDEN_WORDS


def test_hashes_of_several_columns_are_those_of_every_release() -> None:
    assert stable_hash([KEYS, WORDS]).tolist() == GOLDEN_PAIR


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt32, pl.UInt64], ids=str)
def test_the_width_of_an_integer_does_not_matter(kind: type[pl.DataType]) -> None:
    values = [0, 5, 127, None]
    assert stable_hash([pl.Series(values, dtype=kind)]).tolist() == stable_hash([pl.Series(values)]).tolist()


def test_bools_dates_and_times_hash_by_their_number() -> None:
    assert stable_hash([pl.Series([True])])[0] == stable_hash([pl.Series([1])])[0]
    assert stable_hash([pl.Series([dt.date(1970, 1, 2)])])[0] == stable_hash([pl.Series([1])])[0]
    moment = pl.Series([dt.datetime.fromisoformat("1970-01-01T00:00:01")])
    assert stable_hash([moment])[0] == stable_hash([pl.Series([1_000_000])])[0]


def test_zero_has_one_sign_and_there_is_one_nan() -> None:
    odd_nan = np.array([0x7FF8000000000001], np.int64).view(np.float64)
    floats = pl.Series(np.concatenate([[0.0, -0.0, np.nan], odd_nan]))
    zero, minus_zero, nan, other_nan = stable_hash([floats]).tolist()
    assert zero == minus_zero
    assert nan == other_nan != zero


def test_a_float_hashes_alike_in_both_widths() -> None:
    values = [0.5, -3.25, None]
    narrow = pl.Series(values, dtype=pl.Float32)
    assert stable_hash([narrow]).tolist() == stable_hash([pl.Series(values)]).tolist()


def test_strings_bytes_and_categories_hash_by_content() -> None:
    words = pl.Series(["a", "penstock", "a"])
    assert stable_hash([words]).tolist() == stable_hash([words.cast(pl.Binary)]).tolist()
    assert stable_hash([words]).tolist() == stable_hash([words.cast(pl.Categorical)]).tolist()


def test_null_is_a_value_of_its_own() -> None:
    empty, null = stable_hash([pl.Series(["", None])]).tolist()
    assert empty != null
    zero, none = stable_hash([pl.Series([0, None])]).tolist()
    assert zero != none
    assert stable_hash([pl.Series([None, None])]).tolist() == [none, none]


def test_the_order_of_columns_matters() -> None:
    a, b = pl.Series([1]), pl.Series([2])
    assert stable_hash([a, b])[0] != stable_hash([b, a])[0]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=30), st.data())
def test_a_hash_does_not_depend_on_where_the_row_lies(words: list[str | None], data: st.DataObject) -> None:
    column = pl.Series(words, dtype=pl.String)
    start = data.draw(st.integers(0, len(words) - 1))
    assert stable_hash([column[start:]]).tolist() == stable_hash([column]).tolist()[start:]
    chunks = pl.concat([column[:start], column[start:]], rechunk=False)
    assert stable_hash([chunks]).tolist() == stable_hash([column]).tolist()


@pytest.mark.parametrize("kind", [pl.List(pl.Int64), pl.Struct({"p": pl.Int64})], ids=str)
def test_nested_columns_cannot_be_keys(kind: pl.DataType) -> None:
    with pytest.raises(TypeError, match="'deep'"):
        stable_hash([pl.Series("deep", [], dtype=kind)])


def test_different_numbers_have_different_hashes() -> None:
    hashes = stable_hash([pl.Series(np.arange(200_000))])
    assert len(np.unique(hashes)) == 200_000
