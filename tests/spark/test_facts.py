"""What Penstock relies on in Spark, asked of Spark itself."""

from __future__ import annotations

from typing import Any

import pytest

import penstock as ps
from penstock import testing
from penstock.frames.slices import addresses, partition_of
from tests.spark.topologies import totals_topology

pytestmark = pytest.mark.spark


def test_spark_puts_a_slice_where_we_say_and_spreads_them_evenly(spark_run: Any) -> None:
    with spark_run.start(totals_topology(ps.Collect(), rows=10)) as handle:
        handle.wait()
        spark = _session()
        keys = [int(a) for a in addresses("totals", 120)]
        rows = spark.createDataFrame([(key,) for key in keys], "address BIGINT")
        for partitions in (1, 2, 3, 4, 5, 6, 8, 10, 12, 60, 120):
            places = rows.selectExpr("address", f"pmod(hash(address), {partitions}) AS place").collect()
            counts = [0] * partitions
            for address, place in places:
                assert partition_of(address, partitions) == place
                counts[place] += 1
            assert set(counts) == {120 // partitions}


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def test_many_partitions_give_the_same_answer(spark_run: Any, same_rows: Any) -> None:
    top = totals_topology(ps.Collect(), rows=3_000)
    same_rows(spark_run.through(top, partitions=5)["collect"], testing.run(top)["collect"])
