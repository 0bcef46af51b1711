"""Every operator and every routing gives on Spark what the reference engine gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import penstock as ps
from penstock import testing

pytestmark = pytest.mark.spark
SCHEMA = {"n": int, "key": str, "value": float}
ROWS = 3_000


def make(first: int, count: int) -> pl.DataFrame:
    n = np.arange(first, first + count)
    keys = pl.Series([f"user-{i * 7919 % 61}" for i in n])
    return pl.DataFrame({"n": n, "key": keys, "value": (n % 97) / 4})


def source(top: ps.Topology, name: str = "gen", rows: int = ROWS, per_epoch: int = 1_100) -> ps.Stream:
    return top.source(name, ps.Generator(make, schema=SCHEMA, rows=rows), rows_per_epoch=per_epoch)


class Totals(ps.Operator):
    """Per key: events and sum; says what is new after each batch."""

    returns = {"key": str, "events": int, "total": float}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"key": str}, values={"events": int, "total": float})

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        rows = state.rows(batch.select("key"))
        state.count("events", rows)
        state.add("total", rows, batch["value"])
        emit(state.frame(state.changed()))


class Seen(ps.Operator):
    """How many rows this slice has got, with state of the plain kind."""

    returns = {"rows": int}

    def init_state(self) -> dict[str, int]:
        return {"rows": 0}

    def process(self, batch: pl.DataFrame, state: dict[str, int], emit: Any) -> None:
        state["rows"] += batch.height
        emit(pl.DataFrame({"rows": [state["rows"]]}))


class Enriched(ps.Operator):
    """Joins rows with the newest label of their key; rows without one go to another output."""

    returns = {"n": int, "key": str, "label": str}
    outputs = {"unknown": {"n": int, "key": str}}

    def init_state(self) -> dict[str, str]:
        return {}

    def process(self, batch: pl.DataFrame, state: dict[str, str], emit: Any) -> None:
        raise AssertionError("process_input takes both")

    def process_input(self, name: str, batch: pl.DataFrame, state: dict[str, str], emit: Any) -> None:
        if name == "labels":
            state.update(zip(batch["key"], batch["label"], strict=True))
            return
        labels = pl.Series([state.get(key) for key in batch["key"]], dtype=pl.String)
        rows = batch.select("n", "key").with_columns(label=labels)
        emit(rows.filter(pl.col("label").is_not_null()))
        emit.to("unknown", rows.filter(pl.col("label").is_null()).drop("label"))


class PerWindow(ps.Operator):
    """Counts per key, given out when time has moved on."""

    returns = {"key": str, "events": int}

    def init_state(self) -> dict[str, int]:
        return {}

    def process(self, batch: pl.DataFrame, state: dict[str, int], emit: Any) -> None:
        for key in batch["key"]:
            state[key] = state.get(key, 0) + 1

    def on_punctuation(self, time: Any, state: dict[str, int], emit: Any) -> None:
        emit(
            pl.DataFrame(
                {"key": list(state), "events": list(state.values())}, schema={"key": str, "events": int}
            )
        )
        state.clear()


def one_map(top: ps.Topology) -> ps.Stream:
    return source(top).map("double", lambda df: df.with_columns(twice=pl.col("value") * 2))


def one_filter(top: ps.Topology) -> ps.Stream:
    return source(top).filter("high", pl.col("value") > 10).filter("odd", lambda df: df["n"] % 2 == 1)


def one_flat_map(top: ps.Topology) -> ps.Stream:
    return source(top).flat_map("thrice", lambda df: pl.concat([df, df, df]).select("n", "key"))


def per_event_functions(top: ps.Topology) -> ps.Stream:
    rows = source(top, rows=400, per_epoch=150)
    kept = rows.filter("some", ps.per_event(lambda event: event["n"] % 3 == 0))
    named = kept.map(
        "named",
        ps.per_event(lambda e: {"label": f"{e['key']}!", "n": e["n"]}, returns={"label": str, "n": int}),
    )
    return named.flat_map("twice", ps.per_event(lambda e: [e, e], returns={"label": str, "n": int}))


def a_union(top: ps.Topology) -> ps.Stream:
    return source(top).filter("low", pl.col("value") < 3).union("both", source(top, "more", rows=700))


def keyed(top: ps.Topology) -> ps.Stream:
    return source(top).key_by("key").process("totals", Totals())


def keyed_by_two(top: ps.Topology) -> ps.Stream:
    return source(top).key_by("key", "n").process("seen", Totals(), parallelism=7)


def two_hops(top: ps.Topology) -> ps.Stream:
    totals = source(top).key_by("key").process("totals", Totals())
    renamed = totals.map("rounded", lambda df: df.select(key=pl.lit("all"), value=pl.col("total")))
    return renamed.key_by("key").process("again", Totals(), parallelism=3)


def union_of_depths(top: ps.Topology) -> ps.Stream:
    rows = source(top)
    totals = rows.key_by("key").process("totals", Totals())
    raw = rows.map("raw", lambda df: df.select("key", "value"))
    late = totals.map("late", lambda df: df.select("key", value=pl.col("total")))
    return raw.union("mixed", late).key_by("key").process("sums", Totals())


def shuffled(top: ps.Topology) -> ps.Stream:
    return source(top).shuffle().process("seen", Seen(), parallelism=5)


def weighted(top: ps.Topology) -> ps.Stream:
    return source(top).shuffle(weights=(1, 2, 5)).process("seen", Seen())


def broadcasted(top: ps.Topology) -> ps.Stream:
    return source(top).broadcast().process("seen", Seen(), parallelism=6)


def to_one(top: ps.Topology) -> ps.Stream:
    return source(top).to_one().process("seen", Seen())


def partitioned(top: ps.Topology) -> ps.Stream:
    return source(top).partition_by(lambda df: df["n"] % 4).process("seen", Seen(), parallelism=4)


def spread_map(top: ps.Topology) -> ps.Stream:
    return source(top).map("spread", lambda df: df.select("n", "key"), parallelism=4)


def several_inputs(top: ps.Topology) -> ps.Stream:
    labels = source(top, "names", rows=40).map(
        "labels", lambda df: df.select("key", label=pl.col("key").str.to_uppercase())
    )
    rows = source(top)
    joined = rows.key_by("key").process("enrich", Enriched(), also={"labels": labels.key_by("key")})
    unknown = joined.output("unknown").map("marked", lambda df: df.with_columns(label=pl.lit("?")))
    return joined.union("all", unknown)


def windows(top: ps.Topology) -> ps.Stream:
    return source(top).key_by("key").process("windows", PerWindow(), parallelism=4)


CASES: list[Callable[[ps.Topology], ps.Stream]] = [
    one_map,
    one_filter,
    one_flat_map,
    per_event_functions,
    a_union,
    keyed,
    keyed_by_two,
    two_hops,
    union_of_depths,
    shuffled,
    weighted,
    broadcasted,
    to_one,
    partitioned,
    spread_map,
    several_inputs,
    windows,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_spark_gives_what_the_reference_engine_gives(case: Any, spark_run: Any, same_rows: Any) -> None:
    top = ps.Topology(case.__name__.replace("_", "-"))
    case(top).sink("out", ps.Collect())
    expected = testing.run(top)["out"]
    assert expected.height > 0
    same_rows(spark_run.through(top)["out"], expected)
