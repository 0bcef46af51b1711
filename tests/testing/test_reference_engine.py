"""The reference engine gives one answer, however epochs, splits and arrivals fall."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock import testing
from penstock.errors import BadArgument, BadChange, OperatorFailed
from penstock.testing import Epoch, ReferenceRun

pytestmark = pytest.mark.long

ROWS = 40
SCHEMA = {"n": int, "key": str, "at": dt.datetime}
BEGIN = dt.datetime(2024, 1, 1)
SETTINGS = settings(max_examples=8, deadline=None, database=None)
cuts = st.lists(st.builds(Epoch, st.integers(1, 15), st.integers(1, 4)), max_size=6)


def make(first: int, count: int) -> pl.DataFrame:
    numbers = range(first, first + count)
    times = [BEGIN + dt.timedelta(seconds=n) for n in numbers]
    return pl.DataFrame(
        {"n": numbers, "key": [f"k{n * 7 % 5}" for n in numbers], "at": times},
        schema_overrides={"n": pl.Int64},
    )


def source(top: ps.Topology, name: str = "rows", **options: Any) -> ps.Stream:
    return top.source(name, ps.Generator(make, schema=SCHEMA, rows=ROWS, **options))


class Numbered(ps.Operator):
    """Gives each row its number among those of its key."""

    returns = {"n": int, "key": str, "number": int}

    def init_state(self) -> dict[str, int]:
        return {}

    def process(self, batch: pl.DataFrame, state: dict[str, int], emit: Any) -> None:
        numbers = []
        for key in batch["key"]:
            state[key] = state.get(key, 0) + 1
            numbers.append(state[key])
        emit(batch.select("n", "key", number=pl.Series(numbers, dtype=pl.Int64)))


class Joined(ps.Operator):
    """Keeps both inputs and gives the pairs of equal keys, when all has come."""

    returns = {"n": int, "other": int}

    def init_state(self) -> dict[str, list[tuple[int, str]]]:
        return {"in": [], "side": []}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None: ...

    def process_input(self, name: str, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        state[name] += batch.select("n", "key").rows()

    def on_punctuation(self, time: dt.datetime, state: Any, emit: Any) -> None:
        if time == dt.datetime.max:
            pairs = [(n, m) for n, key in state["in"] for m, other in state["side"] if key == other]
            emit(pl.DataFrame(pairs, schema=self.returns, orient="row"))


def stateless(top: ps.Topology) -> ps.Stream:
    rows = source(top)
    return rows.filter("some", pl.col("n") % 3 > 0).flat_map("twice", lambda df: pl.concat([df, df]))


def keyed(top: ps.Topology) -> ps.Stream:
    return source(top).key_by("key").process("numbered", Numbered(), parallelism=3)


def two_hops(top: ps.Topology) -> ps.Stream:
    first = source(top).key_by("key").process("numbered", Numbered(), parallelism=3)
    total = (
        first.map("plain", lambda df: df.select("n", "key"))
        .key_by("key")
        .process("again", Numbered(), parallelism=2)
    )
    return total.map("only", lambda df: df.select("key", "number"))


def joined(top: ps.Topology) -> ps.Stream:
    rows = source(top)
    odd = rows.filter("odd", pl.col("n") % 2 == 1)
    return rows.key_by("key").process("joined", Joined(), also={"side": odd.key_by("key")}, parallelism=2)


def rows_of(frame: pl.DataFrame) -> list[Any]:
    return sorted(frame.rows())


@pytest.mark.parametrize("build", [stateless, keyed, two_hops, joined], ids=lambda f: f.__name__)
@SETTINGS
@given(
    epochs=cuts,
    seed=st.one_of(st.none(), st.integers(0, 9)),
    per_epoch=st.integers(5, 50),
    keep=st.booleans(),
)
def test_any_cuts_splits_and_arrivals_give_the_same_rows(
    build: Any, epochs: list[Epoch], seed: int | None, per_epoch: int, keep: bool
) -> None:
    top = ps.Topology("t")
    build(top).sink("out", ps.Collect())
    run = ReferenceRun(top, seed=seed, keep_decoded=keep)
    for cut in epochs:
        run.step(cut)
    run.drain(Epoch(per_epoch))
    assert rows_of(run.result()["out"]) == rows_of(testing.run(top)["out"])


@SETTINGS
@given(seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)), splits=st.integers(1, 4))
def test_the_order_of_arrival_does_not_show_at_all(seeds: tuple[int, int], splits: int) -> None:
    top = ps.Topology("t")
    joined(top).sink("out", ps.Collect())
    one, other = (
        testing.run(top, epochs=[Epoch(7, splits)] * 3, rows_per_epoch=9, seed=seed) for seed in seeds
    )
    assert one["out"].equals(other["out"])


def test_windows_close_with_the_time_of_the_slowest_source() -> None:
    class Times(ps.Operator):
        returns = {"until": dt.datetime}

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None: ...

        def on_punctuation(self, time: dt.datetime, state: Any, emit: Any) -> None:
            emit(pl.DataFrame({"until": [time]}, schema={"until": pl.Datetime("us")}))

    top = ps.Topology("t")

    def at(n: int) -> dt.datetime:
        return BEGIN + dt.timedelta(seconds=n)

    fast = source(top, "fast", time="at", time_of=at)
    slow = source(top, "slow", time="at", time_of=at, lateness="5s")
    fast.to_one().process("times", Times(), also={"slow": slow.to_one()}).sink("out", ps.Collect())
    run = ReferenceRun(top)
    run.step(Epoch(10))
    run.step(Epoch(10))
    run.drain()
    assert run.result()["out"]["until"].to_list() == [at(5), at(15), dt.datetime.max]


def test_observed_times_count_from_the_next_epoch_on_and_nulls_do_not() -> None:
    class Times(ps.Operator):
        returns = {"until": dt.datetime}

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None: ...

        def on_punctuation(self, time: dt.datetime, state: Any, emit: Any) -> None:
            emit(pl.DataFrame({"until": [time]}, schema={"until": pl.Datetime("us")}))

    def sometimes(first: int, count: int) -> pl.DataFrame:
        return make(first, count).with_columns(at=pl.when(pl.col("n") >= 10).then("at"))

    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(sometimes, schema=SCHEMA, rows=30, time="at"))
    rows.to_one().process("times", Times()).sink("out", ps.Collect())
    run = ReferenceRun(top)
    run.drain(Epoch(10))
    assert run.result()["out"]["until"].to_list() == [dt.datetime.max]
    run = ReferenceRun(top)
    for _ in range(2):
        run.step(Epoch(10))
    assert run.counters.observed == {"rows": 1704067219_000_000}


def test_nothing_to_run_is_told_and_changes_nothing() -> None:
    top = ps.Topology("t")
    keyed(top).sink("out", ps.Collect())
    run = ReferenceRun(top)
    run.drain()
    assert not run.step()
    assert run.epoch == 1


def test_bad_records_and_failing_records_are_put_aside() -> None:
    top = ps.Topology("t")

    def picky(df: pl.DataFrame) -> pl.DataFrame:
        if (df["n"] == 13).any():
            raise ValueError("unlucky")
        return df.select("n")

    source(top).map("picky", picky, on_error="dead-letter", returns={"n": int}).sink("out", ps.Collect())
    run = ReferenceRun(top)
    run.drain(Epoch(9))
    assert run.result()["out"]["n"].to_list() == [n for n in range(ROWS) if n != 13]
    letters = run.letters()
    assert letters.select("node", "epoch", "reason").rows() == [("picky", 1, "ValueError: unlucky")]


def test_a_failure_stops_at_its_epoch() -> None:
    top = ps.Topology("t")

    def breaks(df: pl.DataFrame) -> pl.DataFrame:
        return df.select(n=pl.Series([1 // (n - 20) for n in df["n"]], dtype=pl.Int64))

    source(top).map("breaks", breaks).sink("out", ps.Collect())
    with pytest.raises(OperatorFailed) as caught:
        testing.run(top, rows_per_epoch=8)
    assert (caught.value.parameters["node"], caught.value.parameters["epoch"]) == ("breaks", 2)


def versions(number: int, *, name: str = "t", slices: int = 3) -> ps.Topology:
    top = ps.Topology(name)
    numbered = source(top).key_by("key").process("numbered", Numbered(), parallelism=slices)
    numbered.map("version", lambda df: df.with_columns(version=pl.lit(number))).sink("out", ps.Collect())
    return top


def test_a_change_takes_effect_with_the_next_epoch_and_keeps_state() -> None:
    run = ReferenceRun(versions(1))
    run.step(Epoch(10))
    change = run.change(versions(2))
    assert change.swapped == (("version", "logic or parameters"),)
    run.drain(Epoch(10))
    made = run.result()["out"].sort("n")
    assert made["version"].to_list() == [1] * 10 + [2] * 30
    plain = testing.run(versions(1))["out"].sort("n")
    assert made["number"].equals(plain["number"])


def test_a_change_that_a_running_topology_would_refuse_is_refused_here_too() -> None:
    run = ReferenceRun(versions(1))
    run.step(Epoch(10))
    for other in (versions(1, name="other"), versions(1, slices=4)):
        with pytest.raises(BadChange):
            run.change(other)
    run.change(versions(1, slices=4), allow_state_loss=True)
    run.drain()
    assert run.result()["out"].sort("n")["number"].to_list()[10:15] == [1] * 5


def test_a_spark_dataframe_needs_a_twin() -> None:
    def topology(twin: Any) -> ps.Topology:
        top = ps.Topology("t")
        source(top).dataframe("sql", repr, returns={"n": int}, twin=twin).sink("out", ps.Collect())
        return top

    assert testing.run(topology(lambda df: df.select("n")))["out"]["n"].to_list() == list(range(ROWS))
    with pytest.raises(BadArgument) as caught:
        testing.run(topology(None))
    assert caught.value.parameters["what"] == "twin"
