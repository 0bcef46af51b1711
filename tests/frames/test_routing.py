from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from tests.frames.strategies import frames

from penstock.frames.frame import decode
from penstock.frames.hashing import stable_hash
from penstock.frames.routing import encode_batch, slice_ids, split, split_encoded
from penstock.frames.slices import slice_of
from penstock.topology.routes import Broadcast, KeyBy, PartitionBy, Shuffle, ToOne
from penstock.topology.schema import Schema

EVENTS = pl.DataFrame({"k": np.arange(1000) % 37, "s": [f"user-{i % 11}" for i in range(1000)]})


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(frames(), st.data())
def test_each_slice_gets_its_rows_in_order(case: tuple[pl.DataFrame, Schema], data: st.DataObject) -> None:
    df, schema = case
    slices = data.draw(st.integers(1, 5))
    ids = np.array(
        data.draw(st.lists(st.integers(0, slices - 1), min_size=df.height, max_size=df.height)), np.int32
    )
    wanted = {s: df.filter(ids == s) for s in range(slices) if (ids == s).any()}
    parts = {s: decode(encode_batch(batch), schema) for s, batch in split(df, ids, slices)}
    assert list(parts) == list(wanted)
    for s, part in parts.items():
        assert_frame_equal(part, wanted[s], check_exact=True)
    encoded = split_encoded(df, ids, slices)
    assert [(cut.slice, cut.rows) for cut in encoded] == [(s, part.height) for s, part in wanted.items()]
    for cut in encoded:
        assert_frame_equal(decode(cut.payload, schema), wanted[cut.slice], check_exact=True)


def test_a_cut_says_its_first_and_last_time() -> None:
    times = [dt.datetime.fromisoformat(f"2024-01-01T00:00:0{s}") for s in (5, 1, 9, 3)]
    df = pl.DataFrame({"t": pl.Series([*times, None], dtype=pl.Datetime("us"))})
    micros = df["t"].to_physical().to_list()
    cuts = split_encoded(df, np.array([0, 0, 0, 2, 3], np.int32), 4, time="t")
    assert [(c.slice, c.first_time, c.last_time) for c in cuts] == [
        (0, micros[1], micros[2]),
        (2, micros[3], micros[3]),
        (3, None, None),
    ]


@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_slice_out_of_range_cuts_nothing(wrong: int) -> None:
    with pytest.raises(ValueError, match=r"0 … 2"):
        split(pl.DataFrame({"a": [1, 2]}), np.array([0, wrong], np.int32), 3)


def test_a_slice_number_per_row_is_needed() -> None:
    with pytest.raises(ValueError, match="1 slice numbers for 2 rows"):
        split(pl.DataFrame({"a": [1, 2]}), np.zeros(1, np.int32), 3)


def test_equal_keys_meet_in_one_slice_whatever_the_batch() -> None:
    route = KeyBy(("s", "k"))
    whole = slice_ids(EVENTS, route, 120, start=0)
    part = slice_ids(EVENTS[500:], route, 120, start=77)
    assert whole is not None
    assert part is not None
    assert whole.tolist() == slice_of(stable_hash([EVENTS["s"], EVENTS["k"]]), 120).tolist()
    assert part.tolist() == whole[500:].tolist()


@pytest.mark.parametrize("route", [Shuffle(), Shuffle((1, 2, 0, 1))])
def test_a_shuffle_does_not_depend_on_how_batches_are_cut(route: Shuffle) -> None:
    first = 5 << 40
    whole = slice_ids(EVENTS, route, 4, start=first)
    part = slice_ids(EVENTS[300:], route, 4, start=first + 300)
    assert whole is not None
    assert part is not None
    assert part.tolist() == whole[300:].tolist()


def test_a_shuffle_deals_in_turn() -> None:
    ids = slice_ids(EVENTS[:7], Shuffle(), 3, start=2)
    assert ids is not None
    assert ids.tolist() == [2, 0, 1, 2, 0, 1, 2]


def test_weights_hold_in_every_short_run() -> None:
    ids = slice_ids(EVENTS, Shuffle((1, 2, 0, 1)), 4, start=123)
    assert ids is not None
    for run in np.split(ids, 10):
        assert np.bincount(run, minlength=4) == pytest.approx([25, 50, 0, 25], abs=3)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (0.0, 0.0), (1.0, float("nan"))])
def test_weights_that_cannot_be_dealt_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights"):
        slice_ids(EVENTS, Shuffle(weights), 2, start=0)


def test_to_one_uses_the_first_slice() -> None:
    ids = slice_ids(EVENTS, ToOne(), 120, start=0)
    assert ids is not None
    assert not ids.any()


def test_a_broadcast_has_no_slices_to_choose() -> None:
    assert slice_ids(EVENTS, Broadcast(), 120, start=0) is None


@pytest.mark.parametrize(
    "give", [lambda d: d["k"] % 3, lambda d: d["k"].to_numpy(), lambda d: d["k"].to_list()]
)
def test_a_function_may_choose_the_slice(give: Any) -> None:
    ids = slice_ids(EVENTS[:3], PartitionBy(give), 3, start=0)
    assert ids is not None
    assert ids.dtype == np.int32
    assert ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "give",
    [
        lambda d: d["k"],
        lambda d: d["k"] - 1,
        lambda d: d["k"].cast(pl.Float64),
        lambda d: d["s"],
        lambda d: d["k"][:2],
        lambda d: pl.Series([None] * d.height, dtype=pl.Int64),
    ],
)
def test_a_function_that_names_no_slice_is_refused(give: Any) -> None:
    with pytest.raises(ValueError, match="partition function"):
        slice_ids(EVENTS, PartitionBy(give), 3, start=0)
