"""The conformance suite for operators passes on good ones and says what is wrong with bad ones."""

from __future__ import annotations

import datetime as dt
import random
import threading
from typing import Any

import polars as pl
import pytest
from tests.engine.accounts import WAYS, batch

import penstock as ps
from penstock.testing.operators import check_operator

pytestmark = pytest.mark.long

N = {"n": int}
EPOCHS = [
    batch([(1, 5, False), (2, 1, False), (1, -2, False)]),
    batch([(3, 9, False), (1, 1, True)]),
    batch([(3, 1, False), (1, 4, False)]),
]
WORDS = pl.DataFrame({"word": ["delta", "alpha", "echo", "bravo", "charlie", "alpha", "foxtrot", "golf"]})


def numbers(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"n": values}, schema={"n": pl.Int64})


@pytest.mark.parametrize("way", ["table", "tables", "plain", "returned", "whole", "chunks"])
def test_good_operators_pass_whatever_their_state_is_made_of(way: str) -> None:
    made = check_operator(WAYS[way][0], EPOCHS, processes=2 if way == "table" else 1)
    assert sorted(made["out"].rows()) == [(1, 3), (1, 4), (2, 1), (3, 9), (3, 10)]


class Sums(ps.Operator):
    """The sum so far, once for each row; negative numbers go elsewhere; the rest at the end."""

    returns = N
    outputs = {"negative": N}

    def init_state(self) -> dict[str, int]:
        return {"sum": 0}

    def process(self, batch: pl.DataFrame, state: dict[str, int], emit: Any) -> None:
        for n in batch["n"]:
            state["sum"] += n
            emit(numbers(state["sum"]))
        emit.to("negative", batch.filter(pl.col("n") < 0))

    def on_punctuation(self, time: dt.datetime, state: dict[str, int], emit: Any) -> None:
        emit(numbers(-1 if time == dt.datetime.max else time.year))


def test_times_named_outputs_and_other_epochs_are_checked_too() -> None:
    made = check_operator(Sums, [numbers(1, 2), numbers(-3)], times=[dt.datetime(2024, 1, 1)], processes=1)
    assert made["out"]["n"].to_list() == [1, 3, 2024, 0, -1]
    assert made["negative"]["n"].to_list() == [-3]


class SumsAlone(Sums):
    on_punctuation = ps.Operator.on_punctuation


def test_an_operator_whose_output_does_not_follow_the_epochs_can_say_so() -> None:
    check_operator(
        SumsAlone, [numbers(1, 2), numbers(-3), numbers(4, 5, 6, 7)], same_for="epochs", processes=1
    )

    class PerBatch(SumsAlone):
        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            emit(numbers(batch.height))

    check_operator(PerBatch, [numbers(1, 2)], processes=1)
    with pytest.raises(AssertionError, match="epochs have 1 rows"):
        check_operator(PerBatch, [numbers(1, 2)], same_for="epochs")


def test_several_inputs_are_given_by_name() -> None:
    class Joins(ps.Operator):
        returns = {"n": int, "label": str}

        def init_state(self) -> dict[int, str]:
            return {}

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None: ...

        def process_input(self, name: str, batch: pl.DataFrame, state: dict[int, str], emit: Any) -> None:
            if name == "labels":
                state.update(batch.iter_rows())
            else:
                emit(
                    batch.with_columns(
                        label=pl.Series([state.get(n, "?") for n in batch["n"]], dtype=pl.String)
                    )
                )

    labels = pl.DataFrame({"n": [1, 2], "label": ["one", "two"]})
    made = check_operator(Joins, [{"in": numbers(1), "labels": labels}, {"in": numbers(1, 3)}], processes=1)
    assert made["out"].rows() == [(1, "one"), (1, "one"), (3, "?")]  # labels come before the main input
    assert check_operator(Joins, [labels], input="labels", processes=1)["out"].height == 0


class Hidden(SumsAlone):
    """Keeps what it should keep in the state in itself."""

    def __init__(self) -> None:
        self.total = 0

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        self.total += int(batch["n"].sum())
        emit(numbers(self.total))


class Global(SumsAlone):
    """Keeps it in the class."""

    seen: list[int] = []

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        type(self).seen.append(1)
        emit(numbers(len(self.seen)))


class Random(SumsAlone):
    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(numbers(random.getrandbits(60)))


class SetOrder(ps.Operator):
    """Emits in the order of a set of strings."""

    returns = {"word": str}

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(pl.DataFrame({"word": list(set(batch["word"]))}, schema={"word": pl.String}))


class Untouched(SumsAlone):
    """Writes into a table behind its back."""

    def init_state(self) -> Any:
        return ps.KeyedTable({"k": int}, {"sum": int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        if not batch.height:
            return
        key = pl.DataFrame({"k": [0]}, schema={"k": pl.Int64})
        row = state.find(key)
        row = state.rows(key) if row[0] < 0 else row
        state["sum"][row] += int(batch["n"].sum())
        emit(numbers(*state["sum"][row].tolist()))


class Forgets(SumsAlone):
    """Its export leaves something out."""

    def export_state(self, state: Any) -> bytes:
        return b""

    def import_state(self, blob: bytes) -> Any:
        return {"sum": 0}


class Text(SumsAlone):
    def export_state(self, state: Any) -> Any:
        return {"sum": str(state["sum"])}

    def import_state(self, blob: Any) -> Any:
        return {"sum": int(blob["sum"])}


class NeedsRows(SumsAlone):
    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(numbers(batch["n"][0]))


class CountsBatches(SumsAlone):
    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        state["sum"] += 1


class Locked(SumsAlone):
    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("operator", "rows", "says"),
    [
        (Hidden, numbers(1, 2), "keeps state in attributes"),
        (Global, numbers(1, 2), "run a second time"),
        (Random, numbers(1, 2), "run a second time"),
        (SetOrder, WORDS, "in another process"),
        (Untouched, numbers(1, 2), "exported and imported"),
        (Forgets, numbers(1, 2), "exported and imported"),
        (Text, numbers(1, 2), "export_state must give bytes"),
        (NeedsRows, numbers(1, 2), "a batch without rows"),
        (CountsBatches, numbers(1, 2), "must not change its state"),
        (Locked, numbers(1, 2), "must survive cloudpickle"),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_bad_operators_are_told_what_is_wrong(operator: Any, rows: pl.DataFrame, says: str) -> None:
    with pytest.raises(AssertionError, match=says) as caught:
        check_operator(operator, [rows, rows, rows])
    assert operator.__name__ in str(caught.value)


def test_what_is_no_operator_is_refused() -> None:
    with pytest.raises(AssertionError):
        check_operator(dict, [numbers(1)])  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        check_operator(Sums, [])
