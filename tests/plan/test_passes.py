"""Each pass of the compiler alone: what it refuses, and what it makes."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.errors import (
    BadArgument,
    CyclicTopology,
    EmptyTopology,
    MissingColumn,
    NotShippable,
    SchemaMismatch,
    SchemaUnknown,
    TopologyError,
    WrongType,
)
from penstock.plan import passes, plan
from penstock.plan.passes import Draft
from penstock.topology import specs
from penstock.topology.graph import Edge, Graph, Node

COLUMNS = {"user": str, "amount": float, "at": dt.datetime, "tags": "list<string>"}
Build = Callable[[ps.Stream], Any]


def nothing(first: int, count: int) -> pl.DataFrame:
    raise AssertionError("planning reads no data")


def rows(top: ps.Topology, name: str = "rows", columns: Any = None) -> ps.Stream:
    return top.source(name, ps.Generator(nothing, schema=columns or COLUMNS))


def planned(build: Build) -> Any:
    top = ps.Topology("t")
    build(rows(top)).sink("out", ps.Collect())
    return plan(top)


def refused(build: Build, error: type[TopologyError]) -> dict[str, Any]:
    """The parameters of the error, whose site is the line of the node that is to blame."""
    with pytest.raises(error) as caught:
        planned(build)
    parameters = caught.value.parameters
    if "site" in parameters:
        assert parameters["site"].file == __file__
    else:
        assert "test_passes.py:" in parameters["where"]
    return parameters


class Echo(ps.Operator):
    """Emits what it gets."""

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(batch)


# check_ends


def test_a_topology_needs_a_source_and_a_sink() -> None:
    with pytest.raises(EmptyTopology) as caught:
        passes.check_ends(Draft(Graph("t")))
    assert (caught.value.parameters["topology"], caught.value.parameters["missing"]) == ("t", "source")
    top = ps.Topology("t")
    rows(top)
    with pytest.raises(EmptyTopology) as caught:
        passes.check_ends(Draft(top.graph))
    assert caught.value.parameters["missing"] == "sink"


def test_a_cycle_is_refused_before_anything_else_is_looked_at() -> None:
    source = Node("s", specs.SourceSpec(None))
    loop = [Node("a", specs.UnionSpec(), (Edge("b"),)), Node("b", specs.UnionSpec(), (Edge("a"),))]
    sink = Node("out", specs.SinkSpec(ps.Collect()), (Edge("a"),))
    with pytest.raises(CyclicTopology) as caught:
        passes.check_ends(Draft(Graph("t", {n.name: n for n in (source, *loop, sink)})))
    assert set(caught.value.parameters["cycle"].split(" → ")) == {"a", "b"}


# check_routes


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda s: s.process("n", Echo()), "an input of process"),
        (lambda s: s.key_by("user").process("n", Echo(), also={"side": s}), "an input of process"),
        (lambda s: s.shuffle().union("n", s), "the inputs"),
        (lambda s: s.key_by("user").dataframe("n", len, returns=COLUMNS), "the input of dataframe"),
        (lambda s: s.shuffle(weights=(1, 2)).process("n", Echo(), parallelism=3), "the number of weights"),
        (lambda s: s.topology.union("n"), "the inputs of union"),
        (lambda s: s.apply("n", specs.SourceSpec(None)), "the inputs of source"),
    ],
)
def test_routes_that_do_not_fit_the_node_are_refused(build: Build, what: str) -> None:
    assert refused(build, BadArgument)["what"] == what


def test_a_routed_sink_is_refused() -> None:
    top = ps.Topology("t")
    rows(top).to_one().sink("out", ps.Collect())
    with pytest.raises(BadArgument) as caught:
        passes.check_routes(Draft(top.graph))
    assert caught.value.parameters["what"] == "the input of sink"


def test_partition_by_needs_a_function() -> None:
    found = refused(lambda s: s.partition_by("user").process("n", Echo()), WrongType)
    assert (found["node"], found["got"]) == ("n", "str")


# infer_schemas


def test_columns_are_found_by_running_functions_on_no_rows() -> None:
    program = planned(
        lambda s: (
            s.map("m", lambda df: df.select("user", twice=pl.col("amount") * 2))
            .filter("f", pl.col("twice") > 1)
            .flat_map("fm", lambda df: df.with_columns(n=pl.lit(1, pl.Int32)))
            .key_by("n")
            .process("p", Echo())
        )
    )
    two, three = {"user": str, "twice": float}, {"user": str, "twice": float, "n": "int32"}
    found = {name: schema for (name, _), schema in program.schemas.items()}
    assert found == {
        "rows": ps.Schema.of(COLUMNS), "m": ps.Schema.of(two), "f": ps.Schema.of(two),
        "fm": ps.Schema.of(three), "p": ps.Schema.of(three),
    }  # fmt: skip


def test_declared_columns_are_taken_without_running_anything() -> None:
    class Silent(ps.Operator):
        returns = {"n": int}
        outputs = {"late": {"user": str}}

        def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            raise AssertionError("not now")

    program = planned(lambda s: s.to_one().process("p", Silent()))
    assert program.schemas["p", "out"] == ps.Schema.of({"n": int})
    assert program.schemas["p", "late"] == ps.Schema.of({"user": str})


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.key_by("nope").process("n", Echo()),
        lambda s: s.key_by("user", "nope").map("n", lambda df: df),
        lambda s: s.map("n", lambda df: df.select("nope")),
        lambda s: s.map("n", lambda df: df.with_columns(a=df["nope"] * 2)),
        lambda s: s.flat_map("n", lambda df: df.select(pl.col("nope") + 1)),
        lambda s: s.filter("n", pl.col("nope") > 1),
        lambda s: s.filter("n", lambda df: df["nope"] > 1),
        lambda s: s.to_one().process("n", Needs("nope")),
    ],
)
def test_a_missing_column_is_named_with_those_that_are_there(build: Build) -> None:
    found = refused(build, MissingColumn)
    assert (found["node"], found["column"], found["columns"]) == ("n", "nope", "user, amount, at, tags")


class Needs(ps.Operator):
    def __init__(self, column: str) -> None:
        self.column = column

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        emit(batch.select(self.column))


def test_a_missing_column_of_a_side_input_is_told_with_that_inputs_columns() -> None:
    class Sides(Needs):
        def process_input(self, name: str, batch: pl.DataFrame, state: Any, emit: Any) -> None:
            if name == "side":
                self.process(batch, state, emit)

    def build(s: ps.Stream) -> ps.Stream:
        side = rows(s.topology, "other", {"x": int})
        return s.to_one().process("n", Sides("nope"), also={"side": side.broadcast()})

    assert refused(build, MissingColumn)["columns"] == "x"


@pytest.mark.parametrize(
    ("build", "what", "got"),
    [
        (lambda s: s.key_by("tags").process("n", Echo()), "key column 'tags'", "list<string>"),
        (lambda s: s.map("n", lambda df: df["user"]), "what the function of map gives", "Series"),
        (lambda s: s.flat_map("n", lambda df: [1]), "what the function of flat_map gives", "list"),
        (lambda s: s.map("n", 5), "the function of map", "int"),
        (lambda s: s.filter("n", "amount > 1"), "what filter keeps rows by", "str"),
        (lambda s: s.filter("n", pl.col("amount") * 2), "what filter keeps rows by", "Float64"),
        (lambda s: s.filter("n", lambda df: df["amount"]), "what filter keeps rows by", "Float64"),
        (lambda s: s.to_one().process("n", Echo), "the operator of process", "ABCMeta"),
        (lambda s: s.to_one().process("n", lambda df: df), "the operator of process", "function"),
    ],
)
def test_wrong_types_are_refused(build: Build, what: str, got: str) -> None:
    found = refused(build, WrongType)
    assert (found["node"], found["what"], found["got"]) == ("n", what, got)


def test_a_column_of_a_type_that_cannot_travel_is_refused() -> None:
    found = refused(lambda s: s.map("n", lambda df: df.with_columns(x=pl.lit(None))), WrongType)
    assert (found["node"], found["got"]) == ("n", "'Null'")


@pytest.mark.parametrize(
    "keep", [lambda df: df["amount"] > df["amount"].max(), lambda df: [], lambda df: df["amount"].max() > 3]
)
def test_a_filter_that_cannot_tell_of_no_rows_is_taken(keep: Any) -> None:
    assert planned(lambda s: s.filter("n", keep)).schemas["n", "out"] == ps.Schema.of(COLUMNS)


@pytest.mark.parametrize("keep", [lambda df: pl.col("amount") > 1, lambda df: df["amount"].to_numpy() > 1])
def test_a_filter_may_answer_with_an_expression_or_an_array(keep: Any) -> None:
    assert planned(lambda s: s.filter("n", keep)).schemas["n", "out"] == ps.Schema.of(COLUMNS)


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map("n", lambda df: df.row(0)),
        lambda s: s.map("n", ps.per_event(lambda event: event)),
        lambda s: s.flat_map("n", ps.per_event(lambda event: [event])),
        lambda s: s.to_one().process("n", EmitsNothing()),
    ],
)
def test_columns_that_cannot_be_found_must_be_declared(build: Build) -> None:
    assert refused(build, SchemaUnknown)["node"] == "n"


class EmitsNothing(ps.Operator):
    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        if batch.height:
            emit(batch)


def test_columns_are_found_also_if_the_operator_returns_its_state() -> None:
    class Returns(ps.Operator):
        def process_input(self, name: str, batch: pl.DataFrame, state: Any, emit: Any) -> Any:
            if name == "in":
                return batch
            emit(state)
            return None

        process = None  # type: ignore[assignment]

    program = planned(lambda s: s.to_one().process("n", Returns(), also={"side": s.broadcast()}))
    assert program.schemas["n", "out"] == ps.Schema.of(COLUMNS)


def test_streams_that_meet_must_have_the_same_columns() -> None:
    other = {"user": str, "amount": int}
    found = refused(lambda s: s.union("n", rows(s.topology, "other", other)), SchemaMismatch)
    assert found["node"] == "n"
    assert (found["expected"], found["got"]) == (ps.Schema.of(COLUMNS), ps.Schema.of(other))


def test_columns_in_another_order_are_other_columns() -> None:
    turned = dict(reversed(COLUMNS.items()))
    assert refused(lambda s: s.union("n", rows(s.topology, "other", turned)), SchemaMismatch)["node"] == "n"


def test_a_source_must_be_one_and_its_time_a_timestamp() -> None:
    for source, what in (
        ([1, 2], "the source"),
        (ps.Generator(nothing, schema=COLUMNS, time="amount"), "time column 'amount'"),
    ):
        top = ps.Topology("t")
        top.source("n", source).sink("out", ps.Collect())
        with pytest.raises(WrongType) as caught:
            plan(top)
        assert (caught.value.parameters["node"], caught.value.parameters["what"]) == ("n", what)


def test_a_sink_must_be_one() -> None:
    top = ps.Topology("t")
    rows(top).sink("out", 5)
    with pytest.raises(WrongType) as caught:
        plan(top)
    assert (caught.value.parameters["node"], caught.value.parameters["got"]) == ("out", "int")


# ship


def test_a_lock_in_a_closure_cannot_be_shipped() -> None:
    lock = threading.Lock()

    def guarded(df: pl.DataFrame) -> pl.DataFrame:
        with lock:
            return df

    assert refused(lambda s: s.map("n", guarded), NotShippable)["node"] == "n"


def test_a_lock_in_an_operator_or_a_route_cannot_be_shipped() -> None:
    class Locked(Echo):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    assert refused(lambda s: s.to_one().process("n", Locked()), NotShippable)["what"] == "its logic"
    lock = threading.Lock()
    found = refused(lambda s: s.partition_by(lambda df: lock).process("n", Echo()), NotShippable)
    assert "partition by" in found["what"]


# check_addresses


def test_nodes_whose_slices_would_share_an_address_are_refused() -> None:
    one, other = "node-4328", "node-84654"  # found by search: their 31-bit hashes are equal
    top = ps.Topology("t")
    rows(top, one).sink(other, ps.Collect())
    with pytest.raises(BadArgument) as caught:
        passes.check_addresses(Draft(top.graph))
    assert f"'{one}'" in caught.value.parameters["got"]
    assert f"'{other}'" in caught.value.parameters["where"]


def test_passes_leave_the_draft_they_are_given() -> None:
    top = ps.Topology("t")
    rows(top).key_by("user").process("p", Echo()).sink("out", ps.Collect())
    draft = Draft(top.graph)
    for step in passes.PASSES:
        step(draft if step is not passes.place_hops else Draft(top.graph))
    assert (draft.schemas, draft.depth) == ({}, {})
