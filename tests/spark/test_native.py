"""DataFrame nodes: a native Spark plan in the middle of a topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock import testing
from tests.spark.topologies import ORDERS, Totals, make_orders

pytestmark = pytest.mark.spark
RETURNS = {"user": str, "cents": int}


def in_spark(df: Any) -> Any:
    return df.where("amount > 5").selectExpr("upper(user) AS user", "CAST(amount * 100 AS BIGINT) AS cents")


def in_polars(df: pl.DataFrame) -> pl.DataFrame:
    return df.filter(pl.col("amount") > 5).select(
        pl.col("user").str.to_uppercase(), cents=(pl.col("amount") * 100).cast(pl.Int64)
    )


def orders(top: ps.Topology) -> ps.Stream:
    return top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=2_000), rows_per_epoch=700)


def test_a_dataframe_node_behind_a_source(spark_run: Any, same_rows: Any) -> None:
    top = ps.Topology("native-first")
    native = orders(top).dataframe("sql", in_spark, returns=RETURNS, twin=in_polars)
    back = native.map("back", lambda df: df.select("user", amount=pl.col("cents") / 100))
    back.key_by("user").process("totals", Totals()).sink("out", ps.Collect())
    expected = testing.run(top)["out"].group_by("user").agg(pl.col("orders").max())
    got = spark_run.through(top)["out"].group_by("user").agg(pl.col("orders").max())
    same_rows(got, expected)


def test_a_dataframe_node_behind_a_keyed_node(spark_run: Any, same_rows: Any) -> None:
    top = ps.Topology("native-last")
    totals = orders(top).key_by("user").process("totals", Totals())
    shaped = totals.map("shaped", lambda df: df.select("user", amount="total"))
    shaped.dataframe("sql", in_spark, returns=RETURNS, twin=in_polars).sink("native", ps.Collect())
    totals.sink("out", ps.Collect())
    expected, got = testing.run(top), spark_run.through(top)
    same_rows(got["out"], expected["out"])
    same_rows(got["native"], expected["native"])


def test_spark_compiles_code_for_the_rows_of_dataframes_and_not_for_frames(
    spark_run: Any, tmp_path: Path
) -> None:
    frames = ps.Topology("frames-only")
    orders(frames).sink("out", ps.Collect())
    rows = ps.Topology("with-rows")
    orders(rows).dataframe("sql", in_spark, returns=RETURNS, twin=in_polars).sink("out", ps.Collect())
    for number, (topology, compiles) in enumerate(((rows, "true"), (frames, "false"), (rows, "true"))):
        with spark_run.start(topology, directory=tmp_path / str(number)):
            assert SparkSession.active().conf.get("spark.sql.codegen.wholeStage") == compiles
