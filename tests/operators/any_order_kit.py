"""Random chains of the operators on event time, and what a plain sequential evaluation gives.

A case is an input of its own, in an order of its own. Many of them run through one chain side by side,
told apart by the column ``c``, which every key has: so a run costs little more than a case.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
from hypothesis import strategies as st
from tests.operators import event_time_oracle as oracle
from tests.operators.event_time_oracle import Row, Rows

import penstock as ps

START = dt.datetime(1969, 12, 31, 23, 59, 50)  # so that times lie on both sides of zero
SECOND = 1_000_000
COLUMNS = {"time": dt.datetime, "c": int, "k": int, "v": int}
OWN = {
    "init": lambda: 0,
    "add": lambda total, rows: total + (rows["v"] ** 2).sum(),
    "result": lambda total: total,
}
AGGREGATES: dict[str, Callable[[], Any]] = {
    "count": ps.count,
    **{
        name: lambda name=name: getattr(ps, name)("v")
        for name in "sum min max mean variance distinct first last".split()
    },
    **{f"float_{name}": lambda name=name: getattr(ps, name)("x") for name in ("sum", "mean", "variance")},
    "quantile": lambda: ps.quantile("v", 0.3),
    "top": lambda: ps.top("v", 2),
    "fold": lambda: ps.fold("v", **OWN, merge=lambda a, b: a + b, returns=int),
    "kept_fold": lambda: ps.fold("v", **OWN, returns=int),
}
Build = Callable[[ps.Stream, ps.Stream], ps.Stream]
Believe = Callable[[Rows, Rows], Rows]


@dataclass(frozen=True)
class Step:
    """An operator on a chain, the same in plain Python, and what becomes of its rows for the next step."""

    told: str
    build: Build
    believe: Believe
    time: str = "time"
    value: str = "v"

    def __repr__(self) -> str:
        return self.told


rows_of = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2, 3, None])),
    max_size=8,
)
TOGETHER = 25
"""Cases that go through one chain together."""
cases = st.lists(st.tuples(rows_of, rows_of), min_size=TOGETHER, max_size=TOGETHER)
slices = st.integers(1, 3)
groups = st.sampled_from([["k"], []])
some_figures = st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=4, unique=True)


def made(names: list[str]) -> dict[str, Any]:
    return {name: AGGREGATES[name]() for name in names}


def with_x(stream: ps.Stream, names: list[str], n: int) -> ps.Stream:
    """The stream with a column of floats, if one is asked for."""
    if not any(name.startswith("float_") for name in names):
        return stream
    floats = [oracle.x_of(v) for v in range(4)]
    x = (pl.col("v") % 4).replace_strict(list(range(4)), floats, return_dtype=pl.Float64)
    return stream.map(f"floats{n}", lambda df: df.with_columns(x=x))


@st.composite
def aggregates(draw: st.DrawFn, n: int) -> Step:
    by, names, every = draw(groups), draw(some_figures), draw(st.integers(1, 6))
    length = every + draw(st.sampled_from([0, 0, 1, 2, 5]))
    names = sorted({*names, "sum"})
    late, parallelism = draw(st.sampled_from(["counted", "kept"])), draw(slices)
    window = ps.sliding(length=dt.timedelta(seconds=length), every=dt.timedelta(seconds=every))
    options = {"by": ["c", *by], "window": window, "late": late, "parallelism": parallelism}
    asked = {"by": by, "length": length * SECOND, "every": every * SECOND, "names": names}
    return Step(
        f"aggregate({by}, {length}s every {every}s, {names}, {late}, {parallelism})",
        lambda a, b: with_x(a, names, n).aggregate(f"aggregate{n}", **options, **made(names)),
        lambda a, b: oracle.aggregate(a, **asked),
        time="end", value="sum",
    )  # fmt: skip


@st.composite
def count_windows(draw: st.DrawFn, n: int) -> Step:
    by, names, every = draw(groups), sorted({*draw(some_figures), "sum"}), draw(st.integers(1, 3))
    length, parallelism = every + draw(st.integers(0, 2)), draw(slices)
    options = {"by": ["c", *by], "window": ps.count_window(length, every=every), "parallelism": parallelism}
    return Step(
        f"count_window({by}, {length} every {every}, {names}, {parallelism})",
        lambda a, b: with_x(a, names, n).aggregate(f"count{n}", **options, **made(names)),
        lambda a, b: oracle.count_aggregate(a, by=by, length=length, every=every, names=names),
        time="end", value="sum",
    )  # fmt: skip


@st.composite
def joins(draw: st.DrawFn, n: int) -> Step:
    within, how, parallelism = (
        draw(st.integers(0, 5)),
        draw(st.sampled_from(["inner", "left", "outer"])),
        draw(slices),
    )
    predicate = draw(
        st.sampled_from([None, pl.col("v") != pl.col("v_right"), lambda df: df["v"] != df["v_right"]])
    )

    def matches(pair: Row) -> bool:
        known = pair["v"] is not None and pair["v_right"] is not None
        return predicate is None or (known and pair["v"] != pair["v_right"])

    options = {"how": how, "predicate": predicate, "parallelism": parallelism}
    return Step(
        f"join({within}s, {how}, {predicate}, {parallelism})",
        lambda a, b: a.join(f"join{n}", b, on=["c", "k"], within=dt.timedelta(seconds=within), **options),
        lambda a, b: oracle.join(a, b, within=within * SECOND, how=how, matches=matches),
    )


@st.composite
def dedupes(draw: st.DrawFn, n: int) -> Step:
    by, within, parallelism = (
        draw(st.sampled_from([["k"], ["v"], ["k", "v"]])),
        draw(st.integers(0, 8)),
        draw(slices),
    )
    return Step(
        f"dedupe({by}, {within}s, {parallelism})",
        lambda a, b: a.dedupe(
            f"dedupe{n}", ["c", *by], within=dt.timedelta(seconds=within), parallelism=parallelism
        ),
        lambda a, b: oracle.dedupe(a, by=by, within=within * SECOND),
    )


@st.composite
def tops(draw: st.DrawFn, n: int) -> Step:
    k, group = draw(st.integers(1, 3)), draw(st.sampled_from([["k"], [], ["time"], ["k", "time"]]))
    parallelism = draw(slices)
    return Step(
        f"top_k({k}, {group}, {parallelism})",
        lambda a, b: a.top_k(f"top{n}", k, by="v", group=["c", *group], parallelism=parallelism),
        lambda a, b: oracle.top_k(a, k=k, group=group),
        value="rank",
    )


def orders(n: int) -> st.SearchStrategy[Step]:
    step = Step(
        "restore_order",
        lambda a, b: a.restore_order(f"order{n}", by="c"),
        lambda a, b: sorted(a, key=oracle.order),
    )
    return st.just(step)


def unions(n: int) -> st.SearchStrategy[Step]:
    return st.just(Step("union", lambda a, b: a.union(f"union{n}", b), lambda a, b: a + b))


def filters(n: int) -> st.SearchStrategy[Step]:
    keep = lambda a, b: [row for row in a if row["v"] not in (1, None)]  # noqa: E731
    return st.just(Step("filter", lambda a, b: a.filter(f"filter{n}", pl.col("v") != 1), keep))


STEPS = (aggregates, aggregates, count_windows, joins, joins, dedupes, tops, orders, unions, filters)


@st.composite
def chains(draw: st.DrawFn, first: int = 0) -> list[Step]:
    """One to three steps, whose nodes are numbered from ``first`` on."""
    kinds = draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=3))
    return [draw(kind(n)) for n, kind in enumerate(kinds, first)]


def interleaved(inputs: list[list[tuple[int, int, int | None]]], seed: int) -> Rows:
    """The rows of all cases; those of a case keep their order."""
    turns = [c for c, drawn in enumerate(inputs) for _ in drawn]
    random.Random(seed).shuffle(turns)
    left = [iter(as_rows(drawn)) for drawn in inputs]
    return [{"c": c, **next(left[c])} for c in turns]


def source(arrivals: Rows) -> ps.Generator:
    """A source that gives rows in this order and keeps its promise: nothing below the least time to come."""
    moments = [row["time"] for row in arrivals]
    frame = pl.DataFrame(arrivals, schema={"time": pl.Int64, "c": pl.Int64, "k": pl.Int64, "v": pl.Int64})
    frame = frame.with_columns(pl.col("time").cast(pl.Datetime("us")))
    return ps.Generator(
        lambda first, count: frame[first : first + count],
        schema=COLUMNS, rows=len(arrivals), time="time", time_of=lambda n: min(moments[n:]),
    )  # fmt: skip


def as_rows(drawn: list[tuple[int, int, int | None]]) -> Rows:
    zero = (START - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    return [{"time": zero + second * SECOND, "k": k, "v": v} for second, k, v in drawn]


def plain(df: pl.DataFrame, step: Step) -> pl.DataFrame:
    """The rows of a step as rows that the next one takes."""
    k = pl.col("k") if "k" in df.columns else pl.lit(0, pl.Int64).alias("k")
    return df.select(pl.col(step.time).alias("time"), "c", k, pl.col(step.value).cast(pl.Int64).alias("v"))


def believed(chain: list[Step], a: Rows, b: Rows) -> Rows:
    for n, step in enumerate(chain):
        a = step.believe(a, b)
        if n + 1 < len(chain):
            a = [{"time": row[step.time], "k": row.get("k", 0), "v": row[step.value]} for row in a]
    return a


def lead(top: ps.Topology, chain: list[Step], stream: ps.Stream, other: ps.Stream, first: int = 0) -> None:
    """Put a chain behind two streams; its rows go to the sink ``out-<first>``, late ones to others."""
    for n, step in enumerate(chain, first):
        stream = step.build(stream, other)
        for late in [name for name in top.graph[stream.node].spec.output_names() if name != "out"]:
            stream.output(late).sink(f"{late}-{n}", ps.Collect())
        if n + 1 < first + len(chain):
            stream = stream.map(f"plain{n}", lambda df, step=step: plain(df, step))
    stream.sink(f"out-{first}", ps.Collect())


_ROUNDED = ("variance", "float_variance", "quantile")


def contents(rows: Rows) -> Counter[Any]:
    """The rows as a multiset; every digit counts but of figures that are rounded on the way."""

    def value(name: str, x: Any) -> Any:
        return tuple(x) if isinstance(x, list) else float(f"{x:.8g}") if name in _ROUNDED and x else x

    return Counter(tuple(sorted((name, value(name, x)) for name, x in row.items())) for row in rows)


def check(chain: list[Step], inputs: list[Any], found: pl.DataFrame) -> None:
    """Raise unless each case has the rows of a sequential evaluation."""
    rows = found.with_columns(pl.col(pl.Datetime).cast(pl.Int64)).to_dicts()
    by_case: list[Rows] = [[] for _ in inputs]
    for row in rows:
        by_case[row.pop("c")].append(row)
    for case, ((a, b), got) in enumerate(zip(inputs, by_case, strict=True)):
        expected = believed(chain, as_rows(a), as_rows(b))
        assert contents(got) == contents(expected), f"case {case} of {chain}"
        if chain[-1].told == "restore_order":
            assert oracle.is_ordered(got), f"case {case} of {chain}"
