"""One slice in one epoch: the order of what arrived, what leaves, and what happens when user code fails."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.connect.source import END_OF_TIME
from penstock.engine import slice_run
from penstock.engine.counters import Counters
from penstock.engine.flow import Flow
from penstock.engine.outbox import Outbox
from penstock.engine.slice_run import Arrival, SliceRun, as_datetime
from penstock.engine.slice_state import open_state
from penstock.errors import BadEmission, OperatorFailed
from penstock.frames.frame import decode, encode
from penstock.operators.boundary import Boundary
from penstock.plan import plan
from penstock.testing.engine import MemoryShelf

N = {"n": int}
SETTINGS = settings(max_examples=15, deadline=None, database=None)


def nothing(first: int, count: int) -> pl.DataFrame:
    raise AssertionError("these tests hand over the rows themselves")


def frame(numbers: Sequence[int]) -> pl.DataFrame:
    return pl.DataFrame({"n": list(numbers)}, schema={"n": pl.Int64})


class Slice:
    """Slice 0 of the node "p" in a topology: rows → p → out, and what it got and gave."""

    def __init__(
        self, operator: Any, *, side: bool = False, failures: Path | None = None, **options: Any
    ) -> None:
        top = ps.Topology("t")
        rows = top.source("rows", ps.Generator(nothing, schema=N))
        also = {"side": rows.broadcast()} if side else None
        made = rows.key_by("n").process("p", operator, also=also, **options)
        made.sink("out", ps.Collect())
        for name in made.topology.graph["p"].spec.output_names()[1:]:
            made.output(name).sink(f"out-{name}", ps.Collect())
        self.program = plan(top)
        self.node = self.program.graph["p"]
        self.shelf, self.counters, self.boundary = MemoryShelf(), Counters(), Boundary(4, failures)

    def run(self, arrivals: Sequence[Arrival], punctuation: int | None = None) -> dict[str, list[int]]:
        run = SliceRun(self.program, self.node, 0, self.boundary, self.counters)
        departures, _ = run.run(arrivals, punctuation, self.shelf, None)
        return {d.target.name: d.rows["n"].to_list() for d in departures}

    def take(self, numbers: Sequence[int]) -> dict[str, list[int]]:
        return self.run([Arrival("in", "rows", 0, encode(frame(numbers)))])

    @property
    def state(self) -> Any:
        return open_state(self.node, 0, 0, self.shelf, None).state

    @property
    def rejected(self) -> list[bytes]:
        return [letter["raw"] for letter in self.boundary.letters]


class Journal(ps.Operator):
    """Writes down each batch that it gets."""

    returns = N

    def init_state(self) -> list[Any]:
        return []

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        raise AssertionError("process_input takes it")

    def process_input(self, name: str, batch: pl.DataFrame, state: list[Any], emit: Any) -> None:
        state.append((name, batch["n"].to_list()))
        emit(batch)

    def on_punctuation(self, time: dt.datetime, state: list[Any], emit: Any) -> None:
        state.append(("time", time))
        emit(frame([-1]))


@SETTINGS
@given(st.data())
def test_order_is_by_input_source_and_sequence_and_batches_do_not_show_the_cuts(data: st.DataObject) -> None:
    """Two sources and two inputs, cut and arriving in any way."""
    arrivals, whole = [], []
    for i, (source, input_) in enumerate(product(("a", "b"), ("in", "side"))):
        rows = [i * 100 + n for n in range(data.draw(st.integers(0, 6)))]
        cuts = sorted({0, len(rows), *data.draw(st.lists(st.integers(0, len(rows)), max_size=3))})
        arrivals += [
            Arrival(input_, source, first, encode(frame(rows[first:last]))) for first, last in pairwise(cuts)
        ]
        whole += [Arrival(input_, source, 0, encode(frame(rows)))] if rows else []
    shuffled = data.draw(st.permutations(arrivals))
    one, other = Slice(Journal(), side=True), Slice(Journal(), side=True)
    given_ = one.run(shuffled)
    assert given_ == other.run(whole)
    assert one.state == other.state


def test_each_input_is_one_batch_and_the_main_input_comes_last() -> None:
    slice_ = Slice(Journal(), side=True)
    arrivals = [
        Arrival(i, s, q, encode(frame([q]))) for s in "ab" for q in (7, 1, 30) for i in ("side", "in")
    ]
    random.Random(1).shuffle(arrivals)
    slice_.run(arrivals)
    numbers = [1, 7, 30]
    assert slice_.state == [("side", numbers + numbers), ("in", numbers + numbers)]


def test_neighbouring_sources_of_one_input_are_one_batch() -> None:
    slice_ = Slice(Journal())
    slice_.run([Arrival("in", s, 0, encode(frame([i]))) for i, s in enumerate("cab")])
    assert slice_.state == [("in", [1, 2, 0])]


def test_very_many_rows_come_in_batches_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_run, "BATCH_ROWS", 4)
    slice_ = Slice(Journal())
    slice_.run([Arrival("in", "a", q, encode(frame([q, q + 1, q + 2]))) for q in (3, 0, 6)])
    assert [len(rows) for _, rows in slice_.state] == [4, 4, 1]


def test_punctuation_comes_after_the_data_and_may_emit() -> None:
    slice_ = Slice(Journal())
    made = slice_.run([Arrival("in", "a", 0, encode(frame([5])))], punctuation=1_000_000)
    assert slice_.state == [("in", [5]), ("time", dt.datetime(1970, 1, 1, 0, 0, 1))]
    assert made == {"out": [5, -1]}
    assert slice_.run([], punctuation=END_OF_TIME) == {"out": [-1]}
    assert slice_.state[-1] == ("time", dt.datetime.max)


@pytest.mark.parametrize(("us", "expected"), [(10**18, dt.datetime.max), (-(10**18), dt.datetime.min)])
def test_times_beyond_the_calendar_are_its_ends(us: int, expected: dt.datetime) -> None:
    assert as_datetime(us) == expected


def test_named_outputs_lead_to_their_own_consumers() -> None:
    class Splits(ps.Operator):
        returns = N
        outputs = {"odd": N, "unused": N}

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            for n in batch["n"]:
                emit.to("odd" if n % 2 else "out", frame([n]))
            emit.to("unused", frame([]))

    assert Slice(Splits()).take([1, 2, 3, 4]) == {"out": [2, 4], "out-odd": [1, 3]}


def test_a_returned_state_takes_the_place_of_the_old_one() -> None:
    class Sums(ps.Operator):
        returns = N

        def init_state(self) -> int:
            return 0

        def process(self, batch: pl.DataFrame, state: int, emit: Any) -> int:
            emit(frame([state]))
            return state + int(batch["n"].sum())

        def on_punctuation(self, time: Any, state: int, emit: Any) -> int:
            return -state

    slice_ = Slice(Sums())
    slice_.take([1, 2])
    assert slice_.take([4]) == {"out": [3]}
    slice_.run([], punctuation=0)
    assert slice_.state == -7


@pytest.mark.parametrize(
    ("emission", "output", "got"),
    [
        (lambda emit: emit([1, 2]), "out", "list"),
        (lambda emit: emit(None), "out", "NoneType"),
        (lambda emit: emit(pl.DataFrame({"m": [1]})), "out", "column 'n' is missing"),
        (lambda emit: emit(pl.DataFrame({"n": ["x"]})), "out", "column 'n' has type String"),
        (lambda emit: emit(pl.DataFrame({"n": [1], "m": [2]})), "out", "column 'm' was got"),
        (lambda emit: emit.to("late", frame([1])), "late", "rows"),
    ],
)
@pytest.mark.parametrize("on_error", ["stop", "dead-letter"])
def test_what_does_not_fit_the_declaration_is_a_bad_emission(
    emission: Any, output: str, got: str, on_error: str
) -> None:
    class Emits(ps.Operator):
        returns = N

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            emission(emit)

    slice_ = Slice(Emits(), on_error=on_error)
    with pytest.raises(BadEmission) as caught:
        slice_.take([1])
    assert caught.value.condition == "BAD_EMISSION"
    assert {k: caught.value.parameters[k] for k in ("node", "output")} == {"node": "p", "output": output}
    assert caught.value.parameters["got"].startswith(got)
    assert "test_slice_run.py:" in caught.value.parameters["site"]


def test_lossless_differences_are_brought_to_the_declared_columns() -> None:
    class Narrow(ps.Operator):
        returns = N

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            emit(batch.cast(pl.Int8))

    assert Slice(Narrow()).take([1, 2]) == {"out": [1, 2]}


class Careful(ps.Operator):
    """Sums what it gets, and fails on some numbers after having changed its state and emitted."""

    returns = N

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad

    def init_state(self) -> dict[str, Any]:
        return {"sum": 0, "batches": []}

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Any) -> None:
        for n in batch["n"]:
            state["sum"] += n
            emit(frame([state["sum"]]))
            if n in self.bad:
                raise ZeroDivisionError(f"number {n}")


class CarefulTable(Careful):
    """The same over a container, changed half when it fails."""

    def init_state(self) -> Any:
        return ps.KeyedTable({"n": int}, {"seen": int})

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch)
        state.count("seen", rows)
        emit(frame(state["seen"][rows].tolist()))
        if self.bad & set(batch["n"]):
            raise ZeroDivisionError(f"among {batch['n'].to_list()}")


def test_a_failing_operator_stops_with_its_address_and_the_batch_saved(tmp_path: Path) -> None:
    slice_ = Slice(Careful({2}), failures=tmp_path / "failures")
    with pytest.raises(OperatorFailed) as caught:
        slice_.take([1, 2, 3])
    found = caught.value.parameters
    assert caught.value.condition == "OPERATOR_FAILED"
    assert (found["node"], found["epoch"], found["error"]) == ("p", 4, "ZeroDivisionError: number 2")
    assert "test_slice_run.py:" in found["site"]
    assert "in process" in found["traceback"]
    assert pl.read_ipc(Path(found["saved"]).read_bytes()).equals(frame([1, 2, 3]))
    assert slice_.shelf.head() is None  # nothing of the failed epoch is kept


def test_a_batch_that_cannot_be_saved_does_not_hide_the_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorFailed) as caught:
        Slice(Careful({2}), failures=tmp_path / "file" / "failures").take([2])
    assert caught.value.parameters["error"] == "ZeroDivisionError: number 2"
    assert "not saved" in caught.value.parameters["saved"]


@pytest.mark.parametrize("method", ["init_state", "export_state", "on_punctuation"])
def test_every_method_of_an_operator_fails_with_its_address(method: str) -> None:
    def fails(*args: Any) -> Any:
        raise KeyError("oh")

    operator = type("Fails", (Journal,), {method: fails})()
    with pytest.raises(OperatorFailed) as caught:
        Slice(operator).run([Arrival("in", "a", 0, encode(frame([1])))], punctuation=5)
    assert caught.value.parameters["error"] == "KeyError: 'oh'"


numbers_and_bad = st.lists(st.integers(0, 9), min_size=1, max_size=12).flatmap(
    lambda ns: st.tuples(st.just(ns), st.sets(st.sampled_from(ns)))
)


@pytest.mark.parametrize("operator", [Careful, CarefulTable], ids=lambda c: c.__name__)
@SETTINGS
@given(numbers_and_bad, st.lists(st.integers(0, 9), max_size=3))
def test_dead_letters_of_an_operator_leave_no_trace(operator: Any, story: Any, before: list[int]) -> None:
    numbers, bad = story
    slice_, without = Slice(operator(bad), on_error="dead-letter"), Slice(operator(set()))
    earlier = [n for n in before if n not in bad]
    for each in (slice_, without):
        if earlier:
            each.take(earlier)
    made = slice_.take(numbers)
    good = [n for n in numbers if n not in bad]
    assert slice_.rejected == [f'{{"n": {n}}}'.encode() for n in numbers if n in bad]
    made_without = without.take(good) if good else {}
    if operator is Careful:  # the table's counts depend on how the batch was cut around the bad records
        assert made == made_without
    assert len(made.get("out", [])) == len(good)
    assert _plain(slice_.state) == _plain(without.state)
    letters = slice_.boundary.letters
    assert all((x["node"], x["epoch"], x["reason"][:17]) == ("p", 4, "ZeroDivisionError") for x in letters)


def _plain(state: Any) -> Any:
    return sorted(state.frame().rows()) if isinstance(state, ps.KeyedTable) else state


def failing(bad: set[int], made: Any) -> Any:
    def function(df: pl.DataFrame) -> Any:
        if bad & set(df["n"]):
            raise ZeroDivisionError
        return made(df)

    return function


@pytest.mark.parametrize(
    ("kind", "made", "expected"),
    [
        ("map", lambda df: df * 2, lambda n: [n * 2]),
        ("filter", lambda df: df["n"] % 2 == 0, lambda n: [n] if n % 2 == 0 else []),
        ("flat_map", lambda df: pl.concat([df, df]).sort("n"), lambda n: [n, n]),
    ],
)
@SETTINGS
@given(story=numbers_and_bad)
def test_dead_letters_of_stateless_nodes_are_exactly_the_failing_records(
    kind: str, made: Any, expected: Any, story: Any
) -> None:
    numbers, bad = story
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    function = failing(bad, made)
    options: dict[str, Any] = {} if kind == "filter" else {"returns": N}
    getattr(rows, kind)("node", function, on_error="dead-letter", **options).sink("out", ps.Collect())
    boundary = Boundary(1, None)
    flow = Flow(plan(top), boundary, Counters())
    flow.push("rows", "out", frame(numbers))
    given_ = [n for departure in flow.take() for n in departure.rows["n"]]
    good = [m for n in numbers if n not in bad for m in expected(n)]
    assert sorted(given_) == sorted(good)
    if kind != "flat_map":
        assert given_ == good
    assert [x["raw"] for x in boundary.letters] == [f'{{"n": {n}}}'.encode() for n in numbers if n in bad]


def test_a_map_that_changes_the_number_of_rows_stops() -> None:
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    rows.map("m", lambda df: df.head(1), returns=N).sink("out", ps.Collect())
    with pytest.raises(OperatorFailed) as caught:
        Flow(plan(top), Boundary(0, None), Counters()).push("rows", "out", frame([1, 2]))
    assert (caught.value.parameters["node"], caught.value.parameters["error"][:10]) == ("m", "ValueError")


def test_rows_are_counted_once_where_they_are_taken_and_given() -> None:
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    spread = rows.filter("even", pl.col("n") % 2 == 0).map("spread", lambda df: df, parallelism=2)
    spread.map("after", lambda df: df).sink("out", ps.Collect())
    program, counters = plan(top), Counters()
    Flow(program, Boundary(0, None), counters).push("rows", "out", frame([1, 2, 4]))
    run = SliceRun(program, program.graph["spread"], 0, Boundary(0, None), counters)
    run.run([Arrival("in", "rows", 0, encode(frame([2, 4])))], None, MemoryShelf(), None)
    counts = {name: (tally["rows_in"], tally["rows_out"]) for name, tally in counters.nodes.items()}
    assert counts == {"rows": (0, 3), "even": (3, 2), "spread": (2, 2), "after": (2, 2)}
    again = Counters.merged([counters.to_json(), counters.to_json()])
    assert again.nodes["even"]["rows_in"] == 6


def test_counters_keep_the_latest_time_of_each_source() -> None:
    one, other = Counters(), Counters()
    one.saw("a", 5)
    one.saw("a", 3)
    other.saw("a", 4)
    other.saw("b", -1)
    assert Counters.merged([one.to_json(), other.to_json()]).observed == {"a": 5, "b": -1}


def parcels(
    top: ps.Topology, numbers: Sequence[int], *, origin: str = "rows", position: int = 0
) -> list[Any]:
    program = plan(top)
    flow = Flow(program, Boundary(0, None), Counters())
    flow.push("rows", "out", frame(numbers))
    outbox = Outbox(origin, 9, Boundary(0, None))
    return [*outbox.add(flow.take(), position), *outbox.flush()]


def test_a_broadcast_is_serialised_once() -> None:
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    rows.broadcast().process("p", Journal(), parallelism=5).sink("out", ps.Collect())
    made = parcels(top, [1, 2])
    assert [p.slice for p in made] == [0, 1, 2, 3, 4]
    assert len({id(p.payload) for p in made}) == 1


def test_two_ways_from_one_origin_to_one_input_are_told_apart() -> None:
    """Otherwise the order at the receiver would be that of arrival."""
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    minus = rows.map("minus", lambda df: df * -1)
    rows.to_one().union("both", minus.to_one(), rows.to_one()).sink("out", ps.Collect())
    made = parcels(top, [1, 2])
    assert len({(p.node, p.slice, p.input, p.source, p.sequence) for p in made}) == len(made) == 2
    schema = ps.Schema.of(N)
    ordered = sorted(made, key=lambda p: (p.source, p.sequence))
    assert [decode(p.payload, schema)["n"].to_list() for p in ordered] == [[1, 2, 1, 2], [-1, -2]]


def test_large_rows_leave_before_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of frames has to fit into the JVM's memory, however few rows it is."""
    monkeypatch.setattr("penstock.engine.outbox.FRAME_BYTES", 1_000)
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    rows.key_by("n").process("p", Journal(), parallelism=2).sink("out", ps.Collect())
    outbox, left, position = Outbox("rows", 0, Boundary(0, None)), [], 0
    for _ in range(5):
        flow = Flow(plan(top), Boundary(0, None), Counters())
        flow.push("rows", "out", frame(range(position, position + 100)))
        left.append(sum(parcel.rows for parcel in outbox.add(flow.take(), position)))
        position += 100
    assert left == [0, 200, 0, 200, 0]
    assert sum(parcel.rows for parcel in outbox.flush()) == 100


def test_slices_that_emit_little_do_not_all_deal_to_the_same_slice() -> None:
    top = ps.Topology("t")
    rows = top.source("rows", ps.Generator(nothing, schema=N))
    rows.shuffle().process("p", Journal(), parallelism=4).sink("out", ps.Collect())
    places = [parcels(top, [1], origin=f"node#{s:05d}")[0].slice for s in range(120)]
    assert all(places.count(s) > 15 for s in range(4))
    assert places == [parcels(top, [1], origin=f"node#{s:05d}")[0].slice for s in range(120)]


def test_a_partition_function_that_fails_or_names_no_slice_has_an_address() -> None:
    for function in (lambda df: df["nope"], lambda df: df["n"] + 100):
        top = ps.Topology("t")
        rows = top.source("rows", ps.Generator(nothing, schema=N))
        rows.partition_by(function).process("p", Journal(), parallelism=3).sink("out", ps.Collect())
        with pytest.raises(OperatorFailed) as caught:
            parcels(top, [1, 2])
        assert caught.value.parameters["node"] == "p"
