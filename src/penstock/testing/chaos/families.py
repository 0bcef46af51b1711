"""A small check of each family of operators."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import penstock as ps
from penstock.testing.chaos import closed_forms as forms
from penstock.testing.chaos.checks import AS_SHIPPED, Check

ROWS = 1_000
PER_EPOCH = 200
LONG_ROWS = 3_250
LONG_EPOCHS = 65
SLICES = 6
SCHEMA = {"n": int, "key": str, "amount": float, "time": dt.datetime}


def events(first: int, count: int) -> pl.DataFrame:
    """Make the events that ``closed_forms.event`` describes one by one."""
    n = np.arange(first, first + count)
    times = np.datetime64("2026-01-01", "us") + (n * 100_000 - 2_000_000 * (n % 3 == 0)).astype(
        "timedelta64[us]"
    )
    keys = pl.Series([f"key-{i * 7919 % 61}" for i in n], dtype=pl.String)
    return pl.DataFrame({"n": n, "key": keys, "amount": (n % 97) / 4, "time": times})


class Totals(ps.Operator):
    """Per key: events and sum; emits what is new after each batch."""

    returns = {"key": str, "events": int, "total": float}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"key": str}, values={"events": int, "total": float})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch.select("key"))
        state.count("events", rows)
        state.add("total", rows, batch["amount"])
        emit(state.frame(state.changed()))


class Numbered(ps.Operator):
    """Passes each row once, with its number among those of its key."""

    returns = {"key": str, "amount": float, "number": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"key": str}, values={"events": int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch.select("key"))
        before = state["events"][rows]  # a copy: the next line changes the column
        state.count("events", rows)
        nth = pl.int_range(1, pl.len() + 1).over("key")
        emit(batch.select("key", "amount", number=nth + pl.lit(pl.Series(before))))


class Seen(ps.Operator):
    """Rows that a slice has got; state of the plain kind."""

    returns = {"rows": int, "amount": float}

    def init_state(self) -> dict[str, float]:
        return {"rows": 0, "amount": 0.0}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        state["rows"] += batch.height
        state["amount"] += float(batch["amount"].sum())
        emit(
            pl.DataFrame(
                {"rows": [state["rows"]], "amount": [state["amount"]]}, schema_overrides={"rows": pl.Int64}
            )
        )


def stateless(folder: Path) -> ps.Topology:
    """Map, filter and flat map."""
    top = ps.Topology("stateless")
    doubled = _events(top).map("doubled", lambda df: df.with_columns(twice=pl.col("amount") * 2))
    some = doubled.filter("some", pl.col("n") % 7 > 0)
    twice = some.flat_map("repeated", lambda df: pl.concat([df, df]).select("n", "twice"))
    twice.sink("table", ps.Delta(folder / "table"))
    return top


def keyed(folder: Path, *, factor: float = 1.0) -> ps.Topology:
    """Totals per key."""
    top = ps.Topology("keyed")
    priced = _events(top).map("priced", lambda df: df.with_columns(pl.col("amount") * factor))
    totals = priced.key_by("key").process("totals", Totals(), parallelism=SLICES)
    totals.sink("table", ps.Delta(folder / "table"))
    return top


def two_hops(folder: Path) -> ps.Topology:
    """State behind state: rows numbered per key, and totals per letter of those that pass."""
    top = ps.Topology("two-hops")
    rows = _events(top).key_by("key").process("numbered", Numbered(), parallelism=SLICES)
    ends = rows.map("ends", lambda df: df.select(pl.col("key").str.slice(-1), "amount"))
    ends.key_by("key").process("sums", Totals(), parallelism=3).sink("table", ps.Delta(folder / "table"))
    return top


def windows(folder: Path) -> ps.Topology:
    """Figures of tumbling and of sliding windows."""
    top = ps.Topology("windows")
    stream = _events(top)
    per_key = stream.aggregate(
        "per-key",
        by="key",
        window=ps.tumbling("20s"),
        rows=ps.count(),
        amount=ps.sum("n"),
        parallelism=SLICES,
    )
    per_key.sink("tumbling", ps.Delta(folder / "tumbling"))
    overall = stream.aggregate(
        "overall", window=ps.sliding(length="40s", every="10s"), rows=ps.count(), parallelism=1
    )
    overall.sink("sliding", ps.Delta(folder / "sliding"))
    return top


def join(folder: Path) -> ps.Topology:
    """Two sources that meet by key and time."""
    top = ps.Topology("join")
    right = _events(top, "right", rows=ROWS // 2).map(
        "named", lambda df: df.select("key", "time", other=pl.col("n"))
    )
    pairs = _events(top).join("pairs", right, on="key", within="5s", parallelism=SLICES)
    pairs.sink("table", ps.Delta(folder / "table"))
    return top


def dedupe(folder: Path) -> ps.Topology:
    """The first of each key within a time."""
    top = ps.Topology("dedupe")
    _events(top).dedupe("first", "key", within="15s", parallelism=SLICES).sink(
        "table", ps.Delta(folder / "table")
    )
    return top


def top_k(folder: Path) -> ps.Topology:
    """The largest of all."""
    top = ps.Topology("top-k")
    _events(top).top_k("largest", 5, by="amount", group="key", parallelism=SLICES).sink(
        "table", ps.Delta(folder / "table")
    )
    return top


def broadcast(folder: Path) -> ps.Topology:
    """Every instance gets every row."""
    top = ps.Topology("broadcast")
    _events(top).broadcast().process("seen", Seen(), parallelism=3).sink("table", ps.Delta(folder / "table"))
    return top


def several_sinks(folder: Path) -> ps.Topology:
    """One stream into three kinds of sinks, which an epoch commits one after the other."""
    top = ps.Topology("several-sinks")
    totals = _events(top).key_by("key").process("totals", Totals(), parallelism=SLICES)
    totals.sink("delta", ps.Delta(folder / "delta"))
    totals.sink("parquet", ps.Parquet(folder / "parquet"))
    totals.sink("lines", ps.JsonLines(folder / "lines"))
    return top


def files(folder: Path) -> ps.Topology:
    """Files that arrive while the run goes."""
    add_file(folder, 0)
    top = ps.Topology("files")
    source = ps.Files(folder / "in" / "*.jsonl", schema={"key": str, "amount": float}, format="jsonl")
    rows = top.source("files", source, rows_per_epoch=PER_EPOCH)
    totals = rows.key_by("key").process("totals", Totals(), parallelism=SLICES)
    totals.sink("table", ps.Delta(folder / "table"))
    return top


def add_file(folder: Path, part: int) -> None:
    """A further file, which appears whole."""
    rows = events(part * 500, 500).select("key", "amount")
    path = folder / "in" / f"{part}.jsonl"
    path.parent.mkdir(exist_ok=True)
    pending = path.with_name(f".{part}.pending")
    pending.write_text("".join(json.dumps(row) + "\n" for row in rows.iter_rows(named=True)))
    pending.rename(path)


def moving(folder: Path, shape: str = "alone") -> ps.Topology:
    """A count that other nodes are put in front of and taken away from again, so that it changes its hop."""
    top = ps.Topology("moving")
    stream = _events(top)
    if shape in ("map", "maps"):
        stream = stream.shuffle().map("spread", lambda df: df, parallelism=2)
    if shape == "maps":
        stream = stream.shuffle().map("again", lambda df: df, parallelism=3)
    if shape == "count":
        stream = stream.key_by("key").process("other", Numbered(), parallelism=3)
    counted = stream.key_by("key").process("numbered", Numbered(), parallelism=SLICES)
    counted.sink("table", ps.Delta(folder / "table"))
    return top


def large_rows(folder: Path) -> ps.Topology:
    """Rows of a kilobyte to several slices at once and past further hops: payloads are spilled to files."""
    top = ps.Topology("large-rows")
    fat = _events(top).map(
        "fat", lambda df: df.with_columns(text=pl.col("key").repeat_by(200).list.join("-"))
    )
    fat.broadcast().process("seen", Seen(), parallelism=3).sink("table", ps.Delta(folder / "table"))
    fat.filter("some", pl.col("n") % 7 > 0).flat_map("repeated", twice).sink(
        "rows", ps.Parquet(folder / "rows")
    )
    return top


def twice(rows: pl.DataFrame) -> pl.DataFrame:
    """Return every row twice, its amount doubled."""
    doubled = rows.select("n", "text", twice=pl.col("amount") * 2)
    return pl.concat([doubled, doubled])


def long(folder: Path) -> ps.Topology:
    """More epochs than the checkpoint's logs keep, and state and a table that are compacted in them."""
    top = ps.Topology("long")
    stream = _events(top, rows=LONG_ROWS, per_epoch=LONG_ROWS // LONG_EPOCHS)
    totals = stream.key_by("key").process("totals", Totals(), parallelism=2)
    totals.sink("table", ps.Delta(folder / "table"))
    return top


def _events(
    top: ps.Topology, name: str = "events", rows: int = ROWS, per_epoch: int = PER_EPOCH
) -> ps.Stream:
    source = ps.Generator(events, schema=SCHEMA, rows=rows, time="time", lateness="2s")
    return top.source(name, source, rows_per_epoch=per_epoch)


def _large(sinks: forms.Sinks) -> str:
    rows = {"table": sinks["rows"].select("n", "twice")}
    return forms.stateless(ROWS)(rows) or forms.seen_by_all(ROWS, instances=3)(sinks)


FAMILIES = (
    Check("stateless", stateless, closed_form=forms.stateless(ROWS)),
    Check(
        "keyed",
        keyed,
        changes=(lambda folder: keyed(folder, factor=2.0),),
        closed_form=forms.running_totals(ROWS, "table", factors=(1.0, 2.0)),
    ),
    Check("two-hops", two_hops, closed_form=forms.counted_by_letter(ROWS)),
    Check("windows", windows, closed_form=forms.windows(ROWS)),
    Check("join", join, closed_form=forms.pairs(ROWS, ROWS // 2, within_s=5)),
    Check("dedupe", dedupe, closed_form=forms.firsts(ROWS, within_s=15)),
    Check("top-k", top_k, closed_form=forms.leaders(ROWS, k=5)),
    Check("broadcast", broadcast, closed_form=forms.seen_by_all(ROWS, instances=3)),
    Check(
        "several-sinks",
        several_sinks,
        closed_form=forms.running_totals(ROWS, "delta", "parquet", "lines"),
        commits_files=True,
    ),
    Check("files", files, feed=add_file, closed_form=forms.running_totals(3 * 500, "table")),
    Check(
        "moving",
        moving,
        changes=tuple(partial(moving, shape=shape) for shape in ("map", "maps", "alone", "count", "map")),
        closed_form=forms.numbered(ROWS),
        options={"hops": 3},
    ),
    Check("large-rows", large_rows, closed_form=_large),
    Check(
        "long",
        long,
        closed_form=forms.running_totals(LONG_ROWS, "table"),
        options={"spark": AS_SHIPPED},
        stretch=12,
    ),
)
