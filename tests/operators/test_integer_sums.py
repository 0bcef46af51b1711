"""Sums of integers and durations are exact or dead letters, and never wrong."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.event_time_kit import START, at

import penstock as ps
from penstock.errors import OperatorFailed
from penstock.operators import aggregate, count_aggregate, partials
from penstock.operators.partials import Combine, Figures
from penstock.operators.timed_rows import TimedRows
from penstock.testing import Epoch, ReferenceRun

TYPES: dict[str, tuple[int, int]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
    "duration": (-(2**63) + 1, 2**63 - 1),  # the least number is no duration to Python
}
OF_SUM = {**dict.fromkeys(TYPES, (-(2**63), 2**63 - 1)), "uint64": (0, 2**64 - 1)}
WINDOWS: dict[str, Any] = {
    "tumbling": ps.tumbling("10s"),
    "sliding": ps.sliding(length="10s", every="2s"),
    "count": ps.count_window(4, every=1),
}


def numbers(kind: str) -> st.SearchStrategy[int]:
    low, high = TYPES[kind]
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, high - 1]), st.integers(0, 5))


def summed(
    kind: str, values: list[int | None], window: Any, sizes: list[int], **figures: Any
) -> ReferenceRun:
    """A run over an event a second, with the values in a column of this type."""
    times = [at(second) for second in range(len(values))]
    column = pl.Series("v", values, dtype=pl.UInt64 if kind.startswith("u") else pl.Int64)
    column = column.cast(pl.Duration("us") if kind == "duration" else getattr(pl, _polars_name(kind)))
    frame = pl.DataFrame([pl.Series("time", times, dtype=pl.Datetime("us")), column])
    source = ps.Generator(
        lambda first, count: frame[first : first + count],
        schema={"time": dt.datetime, "v": kind}, rows=len(values), time="time",
        time_of=lambda n: at(max(n - 1, 0)),
    )  # fmt: skip
    top = ps.Topology("sums")
    top.source("events", source).aggregate("sums", window=window, **figures).sink("out", ps.Collect())
    run = ReferenceRun(top)
    for size in sizes:
        run.step(Epoch(size))
    run.drain()
    return run


def _polars_name(kind: str) -> str:
    return kind.replace("uint", "UInt").replace("int", "Int") if kind.startswith("int") else f"UInt{kind[4:]}"


def windows_of(values: list[int | None], window: str) -> list[list[int]]:
    """The values of each window, in plain Python."""
    count = len(values)
    if window == "count":
        bounds = [(first, first + 4) for first in range(count - 3)]
    else:
        every = 10 if window == "tumbling" else 2
        bounds = [(first, first + 10) for first in range(-10 + every, count, every)]
    inside = [values[max(first, 0) : max(end, 0)] for first, end in bounds]
    return [[v for v in some if v is not None] for some in inside if some]


def as_integers(column: pl.Series) -> list[int]:
    return column.to_physical().to_list()


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(TYPES)), window=st.sampled_from(sorted(WINDOWS)))
@pytest.mark.parametrize("by_totals", [False, True])
def test_a_sum_is_the_sum_of_python_or_a_dead_letter_that_says_it(
    by_totals: bool, data: st.DataObject, kind: str, window: str
) -> None:
    values = data.draw(st.lists(st.one_of(numbers(kind), numbers(kind), st.none()), min_size=1, max_size=25))
    sizes = data.draw(st.lists(st.integers(1, 9), max_size=3))
    low, high = OF_SUM[kind]
    expected = [sum(some) for some in windows_of(values, window)]
    with pytest.MonkeyPatch.context() as patch:
        if by_totals:
            patch.setattr(aggregate, "_FEW_WINDOWS", 0)
            patch.setattr(count_aggregate, "_FEW_WINDOWS", 0)
        run = summed(kind, values, WINDOWS[window], sizes, total=ps.sum("v"))
    assert sorted(as_integers(run.result()["out"]["total"])) == sorted(
        s for s in expected if low <= s <= high
    )
    reasons = run.letters()["reason"].to_list()
    told = [f"the sum of 'v' is {s}, which does not fit" for s in expected if not low <= s <= high]
    assert sorted(reason[: reason.index("fit") + 3] for reason in reasons) == sorted(told)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from([k for k in sorted(TYPES) if k != "duration"]))
def test_means_and_variances_of_integers_are_those_of_fractions(data: st.DataObject, kind: str) -> None:
    values = data.draw(st.lists(numbers(kind), min_size=2, max_size=10))
    figures = {"mean": ps.mean("v"), "spread": ps.variance("v", ddof=0)}
    [row] = summed(kind, [*values], ps.tumbling("1m"), [3], **figures).result()["out"].to_dicts()
    exact = list(map(Fraction, values))
    assert row["mean"] == pytest.approx(float(sum(exact) / len(exact)), rel=1e-15)
    assert row["spread"] == pytest.approx(float(statistics.pvariance(exact)), rel=1e-15)


def test_a_variance_of_large_integers_keeps_its_digits() -> None:
    values = [2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3]
    run = summed("int64", [*values], ps.tumbling("1m"), [], spread=ps.variance("v", ddof=0))
    assert run.result()["out"]["spread"].to_list() == [1.25]


def test_the_dead_letter_of_a_sum_names_node_group_window_and_sum() -> None:
    frame = pl.DataFrame(
        {"time": [at(1), at(2), at(3)], "user": ["ann", "ann", "bob"], "cents": [2**62, 2**62, 7]}
    )
    source = ps.Generator(
        lambda first, count: frame[first : first + count],
        schema={"time": dt.datetime, "user": str, "cents": int}, rows=3, time="time", time_of=lambda n: START,
    )  # fmt: skip
    top = ps.Topology("t")
    totals = top.source("events", source).aggregate(
        "totals", by="user", window=ps.tumbling("10s"), total=ps.sum("cents"), n=ps.count()
    )
    totals.sink("out", ps.Collect())
    run = ReferenceRun(top)
    run.drain()
    assert run.result()["out"].rows() == [("bob", at(0), at(10), 7, 1)]
    [letter] = run.letters().iter_rows(named=True)
    assert letter["node"] == "totals"
    assert f"the sum of 'cents' is {2**63}, which does not fit Int64" in letter["reason"]
    assert b'"user": "ann"' in letter["raw"]
    assert str(at(0)).encode() in letter["raw"]


def test_partials_that_an_earlier_release_has_kept_go_on() -> None:
    combine = Combine(
        Figures.of("n", ("k",), {"s": ps.sum("v"), "m": ps.mean("v")}), ps.tumbling("10s"), "time"
    )
    operator = aggregate.TimeAggregate(combine, True, "counted")
    rows = pl.DataFrame({"time": [at(1), at(2)], "k": [1, 1], "v": [2**62, 5]})
    old = combine(rows).drop("s.high", "m.high")
    state, made = operator.init_state(), []

    class Seen:
        def __call__(self, rows: pl.DataFrame) -> None:
            made.append(rows)

        def to(self, output: str, rows: pl.DataFrame) -> None: ...

        def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None: ...

        def columns(self, output: str = "out") -> Any: ...

    state.append(old)
    restored = TimedRows(partials.START)
    restored.apply(state.export_base())
    operator.process(combine(pl.DataFrame({"time": [at(3)], "k": [1], "v": [1]})), restored, Seen())
    operator.on_punctuation(at(10), restored, Seen())
    assert [frame.rows() for frame in made] == [[(1, at(0), at(10), 2**62 + 6, (2**62 + 6) / 3)]]
    made.clear()
    operator.on_punctuation(at(10), state, Seen())  # nothing new has come since
    assert [frame["s"].to_list() for frame in made] == [[2**62 + 5]]


KINDS = {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
         "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64}  # fmt: skip


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)))
def test_a_table_adds_like_python_or_says_what_does_not_fit(data: st.DataObject, kind: str) -> None:
    low, high = TYPES[kind]
    amounts = data.draw(st.lists(st.tuples(st.integers(0, 2), numbers(kind)), min_size=1, max_size=12))
    table = ps.KeyedTable({"key": int}, {"total": kind})
    model: dict[int, int] = {}
    for key, amount in amounts:
        wanted = model.get(key, 0) + amount
        rows = table.rows([pl.Series([key])])
        if low <= wanted <= high:
            table.add("total", rows, np.array([amount], KINDS[kind]))
            model[key] = wanted
        else:
            with pytest.raises(OverflowError, match=f"value 'total' of key {key} is {model.get(key, 0)}"):
                table.add("total", rows, np.array([amount], KINDS[kind]))
            model.setdefault(key, 0)
    assert dict(table.frame().rows()) == model


def test_a_table_counts_to_the_end_of_its_type_and_not_beyond() -> None:
    table = ps.KeyedTable({"key": int}, {"n": ("int8", 126)})
    rows = table.rows([pl.Series([5])])
    table.count("n", rows)
    with pytest.raises(OverflowError, match="int8; declare it as a wider type"):
        table.count("n", rows)
    assert table["n"].tolist() == [127]


@pytest.mark.parametrize("change", ["add", "maximum", "minimum", "last"])
def test_an_amount_that_the_type_of_the_value_does_not_hold_is_refused(change: str) -> None:
    table = ps.KeyedTable({"key": int}, {"n": "int32"})
    rows = table.rows([pl.Series([5])])
    with pytest.raises(OverflowError, match=f"'n' is {2**40}"):
        getattr(table, change)("n", rows, np.array([2**40]))
    getattr(table, change)("n", rows, np.array([2**30]))  # a wide type with a value that fits
    assert table["n"].tolist() == [0 if change == "minimum" else 2**30]


class Totals(ps.Operator):
    """Adds amounts up per key."""

    returns = {"key": int, "total": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable({"key": int}, {"total": int})

    def process(self, batch: pl.DataFrame, state: ps.KeyedTable, emit: Any) -> None:
        state.add("total", state.rows(batch), batch["v"])
        emit(state.frame(state.changed()))


def totals(on_error: Any) -> Callable[[], ReferenceRun]:
    frame = pl.DataFrame({"key": [1, 2, 1, 1], "v": [2**62, 3, 2**62, 4]})
    top = ps.Topology("t")
    source = ps.Generator(lambda first, n: frame[first : first + n], schema={"key": int, "v": int}, rows=4)
    stream = top.source("events", source).key_by("key").process("totals", Totals(), on_error=on_error)
    stream.sink("out", ps.Collect())
    return lambda: ReferenceRun(top)


def test_a_total_of_an_operator_that_does_not_fit_stops_the_run_or_is_one_dead_letter() -> None:
    with pytest.raises(OperatorFailed, match="value 'total' of key 1"):
        totals("stop")().drain()
    run = totals("dead-letter")()
    run.drain()
    finals = run.result()["out"].group_by("key").agg(pl.col("total").max())
    assert dict(finals.rows()) == {1: 2**62 + 4, 2: 3}
    assert run.letters().height == 1
