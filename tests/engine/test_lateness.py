"""Whether an event is late depends on its position in its source, not on epochs, splits, slices, arrivals."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.operators import event_time_oracle as believed
from tests.operators.lateness_oracle import has_closed, is_behind, parted

import penstock as ps
from penstock.testing import Epoch, ReferenceRun

SECOND = 1_000_000
SCHEMA = {"time": dt.datetime, "k": int, "v": int}
Rows = list[dict[str, Any]]
Late = Callable[[int, int], bool]


def source(rows: Rows, lateness: int) -> ps.Generator:
    schema = {"time": pl.Int64, "k": pl.Int64, "v": pl.Int64}
    frame = pl.DataFrame(rows, schema=schema).with_columns(pl.col("time").cast(pl.Datetime("us")))
    return ps.Generator(
        lambda first, count: frame[first : first + count],
        schema=SCHEMA, rows=len(rows), time="time", lateness=dt.timedelta(microseconds=lateness),
    )  # fmt: skip


def told_source(rows: Rows, lateness: int) -> ps.Generator:
    """The same with a clock of its own, which says what the source would have said without."""
    times = [row["time"] for row in rows]

    def clock(n: int) -> int:
        return max((time for time in times[:n] if time is not None), default=-(10**15))

    plain = source(rows, lateness)
    return ps.Generator(
        plain.fn, schema=SCHEMA, rows=len(rows), time="time", time_of=clock,
        lateness=dt.timedelta(microseconds=lateness),
    )  # fmt: skip


@dataclass(frozen=True)
class Way:
    """From the source to the operator; the same rows in plain Python."""

    name: str
    lead: Callable[[ps.Stream], ps.Stream]
    kept: Callable[[dict[str, Any]], bool] = lambda row: True
    copies: int = 1


def twice(df: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([df, df])


def each_twice(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [row, row]


WAYS = [
    Way("straight", lambda s: s),
    Way("map", lambda s: s.map("map", lambda df: df.with_columns(v=pl.col("v")))),
    Way("filter", lambda s: s.filter("some", pl.col("v") > 0), lambda row: row["v"] > 0),
    Way("filter all",
        lambda s: s.filter("some", pl.all_horizontal(pl.exclude("time") > 0)),
        lambda row: row["v"] > 0 and row["k"] > 0),
    Way("filter each",
        lambda s: s.filter("some", ps.per_event(lambda row: row["v"] > 0)),
        lambda row: row["v"] > 0),
    Way("flat_map", lambda s: s.flat_map("two", twice), copies=2),
    Way("flat_map each", lambda s: s.flat_map("two", ps.per_event(each_twice, returns=SCHEMA)), copies=2),
    Way("union", lambda s: s.union("both", s.filter("none", pl.lit(value=False)))),
    Way("shuffled", lambda s: s.shuffle().map("map", lambda df: df, parallelism=3)),
    Way("shuffled flat_map", lambda s: s.shuffle().flat_map("two", twice, parallelism=2), copies=2),
    Way("twice exchanged", lambda s: s.shuffle().map("map", lambda df: df, parallelism=2).key_by("v").filter(
        "some", pl.col("v") > 0, parallelism=3), lambda row: row["v"] > 0),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An operator, when an event is late for it, and what comes of the events in time."""

    name: str
    lead: Callable[[ps.Stream, int], ps.Stream]
    late: Late
    believe: Callable[[Rows], Rows]


def windows(length: int, every: int, *, late: str, whole: bool) -> Case:
    window = ps.sliding(length=dt.timedelta(seconds=length), every=dt.timedelta(seconds=every))
    add = {"add": lambda total, rows: total + rows["v"].sum()}
    own = {"init": lambda: 0, **add, "result": lambda total: total}
    figure = ps.sum("v") if whole else ps.fold("v", **own, returns=int)  # type: ignore[arg-type]
    return Case(
        f"windows of {length} every {every}, {late}, {'combined' if whole else 'not combined'}",
        lambda s, n: s.aggregate("node", by="k", window=window, n=figure, late=late, parallelism=n),  # type: ignore[arg-type]
        has_closed(length * SECOND, every * SECOND),
        lambda rows: [
            {"k": r["k"], "start": r["start"], "end": r["end"], "n": r["sum"]}
            for r in believed.aggregate(
                rows, by=["k"], length=length * SECOND, every=every * SECOND, names=["sum"]
            )
        ],
    )


CASES = [
    windows(4, 4, late="counted", whole=True),
    windows(6, 2, late="counted", whole=True),
    windows(4, 4, late="kept", whole=True),
    windows(5, 3, late="counted", whole=False),
    Case("order", lambda s, n: s.restore_order("node", by="k"), is_behind, lambda rows: rows),
    Case("dedupe", lambda s, n: s.dedupe("node", "k", within="3s", parallelism=n), is_behind,
         lambda rows: believed.dedupe(rows, by=["k"], within=3 * SECOND)),
    Case("top_k", lambda s, n: s.top_k("node", 2, by="v", group="k", parallelism=n), is_behind,
         lambda rows: believed.top_k(rows, k=2, group=["k"])),
    Case("count windows",
         lambda s, n: s.aggregate("node", by="k", window=ps.count_window(2), n=ps.sum("v"), parallelism=n),
         is_behind, lambda rows: [
             {"k": r["k"], "start": r["start"], "end": r["end"], "n": r["sum"]}
             for r in believed.count_aggregate(rows, by=["k"], length=2, every=2, names=["sum"])]),
]  # fmt: skip

events = st.lists(
    st.tuples(st.integers(0, 25) | st.none(), st.sampled_from([0, 1]), st.integers(0, 3)), max_size=24
)
cuts = st.lists(st.builds(Epoch, st.integers(1, 12), st.integers(1, 4)), max_size=5)
CHECKED = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


def as_rows(drawn: list[tuple[int | None, int, int]]) -> Rows:
    return [{"time": None if t is None else t * SECOND, "k": k, "v": v} for t, k, v in drawn]


def multiset(rows: pl.DataFrame | Rows) -> Counter[Any]:
    if isinstance(rows, pl.DataFrame):
        rows = rows.with_columns(pl.col(pl.Datetime).cast(pl.Int64)).to_dicts()
    return Counter(tuple(sorted(row.items())) for row in rows)


def late_multiset(case: Case, rows: pl.DataFrame) -> Counter[Any]:
    """Late rows; what is only counted is added up, since how many partials there are depends on the cuts."""
    if "events" not in rows.columns:
        return multiset(rows)
    counts: Counter[Any] = Counter()
    for row in rows.with_columns(pl.col(pl.Datetime).cast(pl.Int64)).to_dicts():
        counts[row["k"]] += row["events"]
    return counts


def run_of(
    way: Way, case: Case, make: ps.Generator, slices: int, epochs: list[Epoch], rest: Epoch, seed: int
) -> ReferenceRun:
    top = ps.Topology("t")
    node = case.lead(way.lead(top.source("events", make)), slices)
    node.sink("out", ps.Collect())
    node.output("late").sink("late", ps.Collect())
    run = ReferenceRun(top, seed=seed, keep_decoded=bool(seed % 2))
    for cut in epochs:
        run.step(cut)
    run.drain(rest)
    return run


def check(
    case: Case, way: Way, rows: Rows, lateness: int, slices: int, epochs: list[Epoch], rest: Epoch, seed: int,
    make: Callable[[Rows, int], ps.Generator],
) -> None:  # fmt: skip
    """Raise unless a run gives what is believed of the events in time, and puts aside those that are late."""
    in_time, late = parted(rows, lateness * SECOND, case.late)
    in_time, late = (
        [row for row in part if way.kept(row) for _ in range(way.copies)] for part in (in_time, late)
    )
    run = run_of(way, case, make(rows, lateness * SECOND), slices, epochs, rest, seed)
    result = run.result()
    assert multiset(result["out"]) == multiset(case.believe(in_time))
    expected = Counter(row["k"] for row in late) if "events" in result["late"].columns else multiset(late)
    assert late_multiset(case, result["late"]) == expected
    assert run.counters.nodes["node"]["late"] == len(late)
    with_time = [row for row in late if row["time"] is not None]
    assert len(with_time) <= run.counters.nodes["events"]["late"] <= len(late)


UNRULY = [(7, 0, 1), (3, 1, 2), (None, 0, 1), (12, 1, 0), (11, 0, 3), (2, 0, 1), (25, 1, 2), (24, 0, 0),
          (17, 0, 1), (8, 1, 1), (26, 0, 2), (1, 1, 3), (30, 0, 1), (22, 0, 2)]  # fmt: skip
CUTS = [Epoch(30, 4), Epoch(1, 1), Epoch(5, 3)]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.rows} rows in {cut.splits} splits")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_the_cuts_do_not_show(way: Way, cut: Epoch) -> None:
    for n, case in enumerate(CASES):
        check(case, way, as_rows(UNRULY), 2, 1 + n % 3, [], cut, n, source if n % 2 else told_source)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@CHECKED
@given(
    way=st.sampled_from(WAYS), drawn=events, lateness=st.integers(0, 6), slices=st.integers(1, 3),
    epochs=cuts, rest=st.builds(Epoch, st.integers(1, 30), st.integers(1, 3)), seed=st.integers(0, 99),
    make=st.sampled_from([source, told_source]),
)  # fmt: skip
def test_late_are_those_that_their_position_says(
    case: Case, way: Way, drawn: Any, lateness: int, slices: int, epochs: list[Epoch], rest: Epoch, seed: int,
    make: Callable[[Rows, int], ps.Generator],
) -> None:  # fmt: skip
    check(case, way, as_rows(drawn), lateness, slices, epochs, rest, seed, make)


@pytest.mark.long
@CHECKED
@given(
    left=events, right=events, lateness=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    how=st.sampled_from(["inner", "left", "outer"]), slices=st.integers(1, 3), epochs=cuts,
    rest=st.builds(Epoch, st.integers(1, 30), st.integers(1, 3)), seed=st.integers(0, 99),
)  # fmt: skip
def test_each_side_of_a_join_is_judged_by_its_own_source(
    left: Any, right: Any, lateness: tuple[int, int], how: Any, slices: int, epochs: list[Epoch], rest: Epoch,
    seed: int,
) -> None:  # fmt: skip
    sides = [as_rows(left), as_rows(right)]
    top = ps.Topology("t")
    a, b = (
        top.source(name, source(rows, late * SECOND), idle=None)
        for name, rows, late in zip("ab", sides, lateness, strict=True)
    )
    pairs = a.join("node", b, on="k", within="2s", how=how, parallelism=slices)
    pairs.sink("out", ps.Collect())
    pairs.output("late").sink("late", ps.Collect())
    pairs.output("late-other").sink("late-other", ps.Collect())
    run = ReferenceRun(top, seed=seed)
    for cut in epochs:
        run.step(cut)
    run.drain(rest)
    parts = [parted(rows, late * SECOND, is_behind) for rows, late in zip(sides, lateness, strict=True)]
    expected = believed.join(
        parts[0][0], parts[1][0], within=2 * SECOND, how=how, matches=lambda pair: True
    )  # fmt: skip
    result = run.result()
    assert multiset(result["out"]) == multiset(expected)
    assert multiset(result["late"]) == multiset(parts[0][1])
    assert multiset(result["late-other"]) == multiset(parts[1][1])
