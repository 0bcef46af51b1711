from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from penstock.errors import BadArgument
from penstock.operators import _keyed_index
from penstock.operators.keyed import KeyedTable

LAYOUTS: dict[str, dict[str, Any]] = {"int": {"k": int}, "string": {"k": str}, "pair": {"k": str, "n": int}}


def keys_of(layout: str, numbers: Sequence[int | None]) -> pl.DataFrame:
    """Keys that are equal where the numbers are, for any layout; None is a null key."""
    text = [None if n is None else "x" * (n % 5) + str(n) for n in numbers]
    frame = pl.DataFrame({"k": text, "n": numbers}, schema={"k": pl.String, "n": pl.Int64})
    return {"int": frame.select(k="n"), "string": frame.select("k"), "pair": frame}[layout]


def table_of(layout: str) -> KeyedTable:
    return KeyedTable(LAYOUTS[layout], {"clicks": int, "best": (float, -1.0)})


def contents(table: KeyedTable) -> dict[Any, tuple[Any, ...]]:
    width = len(table.frame().columns) - 2
    return {row[:width]: row[width:] for row in table.frame().rows()}


def wanted(layout: str, model: dict[int | None, list[float]]) -> dict[Any, tuple[Any, ...]]:
    names = keys_of(layout, list(model)).rows()
    return {name: tuple(values) for name, values in zip(names, model.values(), strict=True)}


BATCHES = st.lists(
    st.tuples(
        st.sampled_from(["count", "remove", "delta", "base"]),
        st.lists(st.none() | st.integers(-3, 12), max_size=12),
    ),
    max_size=12,
)


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=20, deadline=None)
@given(BATCHES)
def test_a_table_is_a_dictionary_that_its_exports_rebuild_row_by_row(
    layout: str, batches: list[tuple[str, list[int | None]]]
) -> None:
    table, copy = table_of(layout), table_of(layout)
    model: dict[int | None, list[float]] = {}
    for action, numbers in batches:
        keys = keys_of(layout, numbers)
        if action == "count":
            rows = table.rows(keys)
            table.count("clicks", rows)
            table.maximum("best", rows, np.arange(len(numbers), dtype=float))
            for i, n in enumerate(numbers):
                entry = model.setdefault(n, [0, -1.0])
                model[n] = [entry[0] + 1, max(entry[1], float(i))]
        elif action == "remove":
            found = table.find(keys)
            assert (found >= 0).tolist() == [n in model for n in numbers]
            table.remove(found[found >= 0])
            for n in numbers:
                model.pop(n, None)
        else:
            copy.apply(table.export_delta() if action == "delta" else table.export_base())
            assert not len(table.changed())
            assert_frame_equal(copy.frame(), table.frame())
        assert len(table) == len(model)
        assert contents(table) == wanted(layout, model)
    copy.apply(table.export_delta())
    assert_frame_equal(copy.frame(), table.frame())
    later = keys_of(layout, [*range(20, 40), None])
    assert copy.rows(later).tolist() == table.rows(later).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_keys_have_one_row_through_growth(layout: str) -> None:
    table = table_of(layout)
    numbers = [i % 3_000 for i in range(6_000)]
    rows = table.rows(keys_of(layout, numbers))
    table.count("clicks", rows)
    assert rows.tolist() == numbers
    assert len(table) == 3_000
    assert table["clicks"].tolist() == [2] * 3_000


@pytest.mark.parametrize("layout", LAYOUTS)
def test_find_adds_and_marks_nothing(layout: str) -> None:
    table = table_of(layout)
    table.rows(keys_of(layout, [1, 2]))
    table.export_base()
    assert table.find(keys_of(layout, [2, 3, None])).tolist() == [1, -1, -1]
    assert len(table) == 2
    assert not len(table.changed())


def test_keys_whose_hashes_collide_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_keyed_index, "stable_hash", lambda columns: np.full(len(columns[0]), 7, np.uint64))
    table = table_of("pair")
    keys = keys_of("pair", [*range(40), None])
    assert table.rows(keys).tolist() == list(range(41))
    assert table.find(keys).tolist() == list(range(41))
    table.remove(np.arange(0, 41, 2))
    assert table.find(keys).tolist() == [r if r % 2 else -1 for r in range(41)]
    copy = table_of("pair")
    copy.apply(table.export_base())
    assert_frame_equal(copy.frame(), table.frame())


def test_fields_that_run_together_are_different_keys() -> None:
    table = KeyedTable({"a": str, "b": str}, {"n": int})
    keys = pl.DataFrame({"a": ["x", "xy", "", None, ""], "b": ["yz", "z", "xyz", "xyz", None]})
    assert table.rows(keys).tolist() == [0, 1, 2, 3, 4]
    assert table.frame().select("a", "b").equals(keys)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (bool, [True, False, None]),
        ("uint64", [2**64 - 1, 0, None]),
        ("int8", [-128, 127, None]),
        (dt.date, [dt.date(2024, 1, 1), dt.date(1900, 1, 1), None]),
        (dt.datetime, [dt.datetime.fromisoformat("2024-01-01T01:02:03.000004"), None]),
        (dt.timedelta, [dt.timedelta(microseconds=-1), None]),
        ("time", [dt.time(1, 2, 3, 4), None]),
        (float, [1.5, -2.5, None]),
        ("float32", [1.5, None]),
        (bytes, [b"\x00\xff", b"", None]),
        (str, ["ü", "", None]),
    ],
    ids=str,
)
@pytest.mark.parametrize("paired", [False, True])
def test_keys_of_every_type_come_back(kind: Any, values: list[Any], paired: bool) -> None:
    key = {"k": kind, "also": str} if paired else {"k": kind}
    table = KeyedTable(key, {"n": int})
    frame = pl.DataFrame({"k": values}, schema={"k": table.frame()["k"].dtype})
    keys = frame.with_columns(also=pl.lit("x")) if paired else frame
    assert table.rows(keys).tolist() == list(range(len(values)))
    assert table.frame()["k"].to_list() == values
    copy = KeyedTable(key, {"n": int})
    copy.apply(table.export_delta())
    assert_frame_equal(copy.frame(), table.frame())
    assert copy.find(keys).tolist() == list(range(len(values)))


def test_zero_has_one_sign_and_nan_is_one_key() -> None:
    table = KeyedTable({"x": float}, {"n": int})
    assert table.rows([pl.Series([0.0, -0.0, float("nan"), float("nan")])]).tolist() == [0, 0, 1, 1]


def test_values_of_every_type_have_defaults_and_come_back() -> None:
    values = {"a": (bool, True), "b": dt.datetime, "c": ("int32", 7), "d": "float32", "e": dt.date}
    table = KeyedTable({"k": int}, values)
    rows = table.rows([pl.Series([5, 6])])
    moment = dt.datetime.fromisoformat("2024-01-01")
    table.last("b", rows, pl.Series([moment, moment]).to_numpy())
    table.last("e", rows[:1], 1)
    copy = KeyedTable({"k": int}, values)
    copy.apply(table.export_delta())
    assert copy.frame().rows() == [
        (5, True, moment, 7, 0.0, dt.date(1970, 1, 2)),
        (6, True, moment, 7, 0.0, dt.date(1970, 1, 1)),
    ]


def test_changes_by_row_take_every_occurrence_of_a_row() -> None:
    table = KeyedTable({"k": int}, {"n": int, "sum": float, "low": (int, 99), "high": int, "last": int})
    rows = table.rows([pl.Series([1, 2, 1, 1])])
    table.count("n", rows)
    table.add("sum", rows, np.array([0.5, 1, 2, 4]))
    table.add("sum", rows, 1)
    table.minimum("low", rows, np.array([5, 6, 3, 4]))
    table.maximum("high", rows, np.array([5, 6, 3, 4]))
    table.last("last", rows, pl.Series([5, 6, 3, 4]))
    assert table.frame().rows() == [(1, 3, 9.5, 3, 5, 4), (2, 1, 2.0, 6, 6, 6)]


def test_a_fraction_is_not_added_to_an_integer() -> None:
    table = KeyedTable({"k": int}, {"n": int})
    with pytest.raises(TypeError):
        table.add("n", table.rows([pl.Series([1])]), np.array([0.5]))


def test_a_row_that_is_none_is_refused_and_changes_nothing() -> None:
    table = KeyedTable({"k": int}, {"n": int})
    table.rows([pl.Series([1])])
    with pytest.raises(IndexError):
        table.count("n", table.find([pl.Series([1, 2])]))
    assert table["n"].tolist() == [0]


def test_a_change_to_a_found_row_is_exported() -> None:
    table, copy = table_of("int"), table_of("int")
    table.rows(keys_of("int", range(100)))
    copy.apply(table.export_base())
    table.add("clicks", table.find(keys_of("int", [3])), 5)
    table["clicks"][7] = 9
    table.touch(np.array([7]))
    assert table.changed().tolist() == [3, 7]
    copy.apply(table.export_delta())
    assert_frame_equal(copy.frame(), table.frame())


def test_a_delta_costs_what_changed() -> None:
    table = table_of("int")
    table.rows(keys_of("int", range(20_000)))
    base = table.export_base()
    table.rows(keys_of("int", range(10)))
    assert len(table.export_delta()) < len(base) / 20


def test_a_key_removed_and_added_again_starts_from_its_defaults() -> None:
    table, copy = table_of("string"), table_of("string")
    key = keys_of("string", [1])
    table.count("clicks", table.rows(key))
    copy.apply(table.export_base())
    table.remove(table.find(key))
    table.rows(key)
    assert table.frame()["clicks"].to_list() == [0]
    copy.apply(table.export_delta())
    assert_frame_equal(copy.frame(), table.frame())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_base_of_mostly_free_rows_is_renumbered(layout: str) -> None:
    table, copy = table_of(layout), table_of(layout)
    rows = table.rows(keys_of(layout, range(4_000)))
    table.remove(rows[:-5])
    copy.apply(table.export_base())
    assert table.find(keys_of(layout, range(3_995, 4_000))).tolist() == [0, 1, 2, 3, 4]
    assert_frame_equal(copy.frame(), table.frame())
    assert table.nbytes == copy.nbytes


def test_memory_does_not_grow_when_keys_come_and_go() -> None:
    table = table_of("string")
    sizes = []
    for turn in range(30):
        table.remove(table.rows(keys_of("string", range(turn * 100, turn * 100 + 100))))
        table.export_delta()
        sizes.append(table.nbytes)
    assert max(sizes) <= 2 * sizes[0]


def test_keys_are_taken_by_name_and_may_be_narrower() -> None:
    table = KeyedTable({"a": int, "b": str}, {"n": int})
    keys = pl.DataFrame({"other": [0], "b": ["x"], "a": pl.Series([1], dtype=pl.Int16)})
    table.rows(keys)
    assert table.frame().rows() == [(1, "x", 0)]


@pytest.mark.parametrize(
    ("key", "values"),
    [({}, {"n": int}), ({"k": int}, {"k": int}), ({"k": "list<int64>"}, {}), ({"k": int}, {"s": str})],
)
def test_columns_that_cannot_be_kept_are_refused(key: dict[str, Any], values: dict[str, Any]) -> None:
    with pytest.raises(BadArgument) as error:
        KeyedTable(key, values)
    assert error.value.parameters["where"] == "KeyedTable"


@pytest.mark.parametrize("blob", [b"", b"x" * 100, KeyedTable({"k": str}, {}).export_base()])
def test_bytes_of_something_else_are_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match="export"):
        KeyedTable({"k": int}, {"n": int}).apply(blob)
