"""Floats are added up exactly, in whatever parts they come, and rounded once."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.event_time_kit import out, rows, started

import penstock as ps
from penstock.operators import _exact_kernels as kernels
from penstock.operators.exact import Variance, nearest, packed

finite = st.floats(allow_nan=False, allow_infinity=False)
LISTS = {"v": pl.List(pl.Float64)}


def exactly(values: list[float]) -> float:
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def summed(parts: list[list[float]]) -> float:
    """The sum of parts that were added up apart."""
    sums = pl.DataFrame({"v": parts}, schema=LISTS).select(packed(pl.col("v")), g=1)
    merged = sums.group_by("g").agg(pl.col("v").explode(empty_as_null=False))
    merged = merged.with_columns(packed(pl.col("v"), kernels.sum_packed))
    return float(merged.select(nearest(pl.col("v"))).item())


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(st.lists(finite, max_size=6), min_size=1, max_size=6))
def test_a_sum_is_that_of_fractions_however_it_is_cut(parts: list[list[float]]) -> None:
    assert summed(parts) == exactly([value for part in parts for value in part])


@pytest.mark.parametrize(
    "values",
    [
        [5e-324, -5e-324],
        [5e-324] * 3,
        [1e308, 1e308, -1e308],  # beyond the greatest float on the way
        [1e308, 1e308],
        [1.0, 2.0**-53, 2.0**-106],  # not quite half way to the next float, told by the last one only
        [1.0, 2.0**-53, -(2.0**-106)],
        [2.0**53, 1.0],
        [-0.0],
        [],
    ],
)
def test_a_sum_is_rounded_to_the_nearest_float(values: list[float]) -> None:
    assert summed([[value] for value in values] or [[]]) == exactly(values)


def test_what_is_no_number_stays_none_in_any_order() -> None:
    infinite, nan = math.inf, math.nan
    assert summed([[1.0, infinite], [2.0]]) == infinite
    assert summed([[-infinite], []]) == -infinite
    assert math.isnan(summed([[infinite], [-infinite]]))
    assert math.isnan(summed([[1.0], [nan, infinite]]))


def test_more_sums_than_there_is_room_for_at_first() -> None:
    wide = pl.DataFrame({"v": [[1e300, 1e-300]] * 500}, schema=LISTS)
    assert set(wide.select(nearest(packed(pl.col("v"))))["v"]) == {1e300}


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    values = [1e9 + offset for offset in (0.0, 1.0, 2.0, 3.0)]

    def build(stream: ps.Stream) -> ps.Stream:
        floats = stream.map("floats", lambda df: df.with_columns(pl.col("v") + 1e9))
        return floats.aggregate("spread", window=ps.tumbling("10s"), all=ps.variance("v", ddof=0))

    run = started(build, rows(*((n, "a", n) for n in range(len(values)))))
    run.drain()
    assert out(run)[0][-1] == 1.25


@pytest.mark.long
@settings(deadline=None)
@given(st.lists(st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100), min_size=2, max_size=8))
def test_a_variance_is_that_of_fractions(values: list[float]) -> None:
    frame = pl.DataFrame({"v": [values]}, schema=LISTS)
    parts = frame.select(
        exact=packed(pl.col("v")), squares=packed(pl.col("v"), kernels.sum_squares), count=pl.lit(len(values))
    ).with_columns(pl.col("count").cast(pl.Int64))
    found = parts.select(Variance("v", 1).result({name: pl.col(name) for name in parts.columns})).item()
    assert found == pytest.approx(float(statistics.variance(map(Fraction, values))), rel=1e-15)
