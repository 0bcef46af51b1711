"""Rows that come back from Spark have the values that Spark gave, or are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.spark.types import from_spark
from penstock.topology.schema import Schema


@pytest.mark.parametrize(
    ("values", "given", "wanted"),
    [
        ([2**31 - 1, None], pa.int64(), "int32"),
        ([2.0, None], pa.float64(), "int64"),
        ([2**53], pa.int64(), "float64"),
        ([0.1, float("inf")], pa.float64(), "float32"),
        ([float("nan")], pa.float32(), "float64"),
    ],
)
def test_numbers_that_the_declared_type_holds_are_taken(
    values: list[Any], given: pa.DataType, wanted: str
) -> None:
    batch = pa.record_batch({"n": pa.array(values, given)})
    found = from_spark(batch, Schema.of({"n": wanted}))["n"].to_list()
    assert [str(x) for x in found] == [str(x) for x in values] or found == pytest.approx(values, nan_ok=True)


@pytest.mark.parametrize(
    ("value", "given", "wanted"),
    [
        (2**31, pa.int64(), "int32"),
        (-1, pa.int64(), "uint64"),
        (1.5, pa.float64(), "int64"),
        (2**53 + 1, pa.int64(), "float64"),
        (1e300, pa.float64(), "float32"),
        (float("nan"), pa.float64(), "int64"),
    ],
)
def test_numbers_that_the_declared_type_does_not_hold_are_refused(
    value: Any, given: pa.DataType, wanted: str
) -> None:
    batch = pa.record_batch({"n": pa.array([value], given)})
    with pytest.raises(ValueError, match="'n'"):
        from_spark(batch, Schema.of({"n": wanted}))
