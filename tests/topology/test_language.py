"""A topology is built of named nodes as frozen values; mistakes are found with their address."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from tests.topology import shop

import penstock as ps
from penstock.errors import (
    BadArgument,
    BadNodeName,
    CyclicTopology,
    DuplicateNodeName,
    ForeignStream,
    PenstockError,
    TopologyError,
    UnknownNode,
    UnknownOutput,
    WrongType,
)
from penstock.topology import specs
from penstock.topology.graph import Edge, Graph, Node
from penstock.topology.routes import Broadcast, KeyBy, PartitionBy, Shuffle, ToOne


def orders(top: ps.Topology, name: str = "orders") -> ps.Stream:
    return top.source(name, ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=10))


def test_building_returns_a_new_graph_and_leaves_the_old_one() -> None:
    top = ps.Topology("shop")
    before = top.graph
    orders(top)
    assert list(before.nodes) == []
    assert list(top.graph.nodes) == ["orders"]


@pytest.mark.parametrize(
    "value", [Graph("g"), Edge("a"), Node("n", specs.UnionSpec()), KeyBy(("a",)), specs.UnionSpec()], ids=repr
)
def test_values_of_the_graph_are_frozen(value: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name if dataclasses.fields(value) else "kind", "other")


def test_topologies_that_are_built_alike_are_equal() -> None:
    assert shop.topology() == shop.topology()
    assert hash(shop.topology()) == hash(shop.topology())
    assert shop.topology(limit=5.0) != shop.topology()
    assert shop.topology() != "shop"


def test_where_a_node_was_declared_does_not_matter_for_equality() -> None:
    one, two = ps.Topology("t"), ps.Topology("t")
    orders(one)

    orders(two)
    assert one == two
    assert Node("a", specs.UnionSpec()) == dataclasses.replace(
        Node("a", specs.UnionSpec()), site=one.graph["orders"].site
    )


def test_a_node_knows_the_line_that_declared_it() -> None:
    top = ps.Topology("t")
    stream = orders(top)
    stream.map("m", shop.in_euros)
    site = top.graph["m"].site
    assert site.file == __file__
    assert str(site).startswith("test_language.py:")
    assert (
        site.line
        == top.graph["m"].site.line
        > test_a_node_knows_the_line_that_declared_it.__code__.co_firstlineno
    )


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        (lambda s: s.key_by("user", "amount"), KeyBy(("user", "amount"))),
        (lambda s: s.shuffle(), Shuffle()),
        (lambda s: s.shuffle(weights=(1, 2)), Shuffle((1.0, 2.0))),
        (lambda s: s.broadcast(), Broadcast()),
        (lambda s: s.to_one(), ToOne()),
        (lambda s: s.partition_by(shop.is_paid), PartitionBy(shop.is_paid)),
    ],
)
def test_routing_is_part_of_the_edge(route: Callable[[ps.Stream], ps.Stream], expected: object) -> None:
    top = ps.Topology("t")
    route(orders(top)).process("totals", shop.Totals())
    assert top.graph["totals"].inputs == (Edge("orders", route=expected),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "slices"),
    [
        (lambda s: s.key_by("user").process("n", shop.Totals()), 120),
        (lambda s: s.key_by("user").process("n", shop.Totals(), parallelism=7), 7),
        (lambda s: s.shuffle().process("n", shop.Totals()), 8),
        (lambda s: s.shuffle(weights=(1, 2, 3)).process("n", shop.Totals()), 3),
        (lambda s: s.to_one().process("n", shop.Totals()), 1),
        (lambda s: s.to_one().process("n", shop.Totals(), also={"side": s.broadcast()}), 1),
        (lambda s: s.key_by("user").process("n", shop.Totals(), also={"side": s.broadcast()}), 120),
        (lambda s: s.map("n", shop.in_euros, parallelism=4), 4),
        (lambda s: s.map("n", shop.in_euros), 1),
    ],
)
def test_a_node_gets_as_many_slices_as_its_routing_needs(build: Any, slices: int) -> None:
    top = ps.Topology("t")
    build(orders(top))
    assert top.graph["n"].parallelism == slices


def test_a_stateless_node_with_slices_of_its_own_gets_its_rows_dealt_out() -> None:
    top = ps.Topology("t")
    orders(top).filter("paid", shop.is_paid, parallelism=3)
    assert top.graph["paid"].inputs[0].route == Shuffle()


def test_a_sink_may_be_given_as_a_path() -> None:
    top = ps.Topology("t")
    orders(top).sink("here", "out/x").graph  # noqa: B018 - a sink gives the topology back
    orders(top, "more").sink("there")
    sinks = [top.graph[name].spec.sink for name in ("here", "there")]  # type: ignore[attr-defined]
    assert sinks == [ps.Delta("out/x"), ps.Delta("out/there")]


def test_two_nodes_of_one_name_are_refused_with_both_places() -> None:
    top = ps.Topology("t")
    orders(top)
    first = top.graph["orders"].site
    with pytest.raises(DuplicateNodeName) as caught:
        orders(top)
    assert caught.value.condition == "DUPLICATE_NODE_NAME"
    assert caught.value.parameters["node"] == "orders"
    assert caught.value.parameters["site"] == first
    assert caught.value.parameters["again"].file == __file__
    assert list(top.graph.nodes) == ["orders"]


@pytest.mark.parametrize("name", ["", "a b", "-a", "../a", "ä", "x" * 65, "a\n", 5, None], ids=repr)
def test_a_name_that_cannot_be_an_identity_is_refused(name: Any) -> None:
    with pytest.raises(BadNodeName) as caught:
        orders(ps.Topology("t"), name)
    assert caught.value.condition == "BAD_NODE_NAME"
    assert caught.value.parameters["node"] == name
    assert caught.value.parameters["site"].file == __file__
    with pytest.raises(BadArgument) as refused:
        ps.Topology(name)
    assert refused.value.parameters["what"] == "the name"


@pytest.mark.parametrize("name", ["a", "A-1", "0", "net.dns_v2", "x" * 64])
def test_letters_digits_dots_dashes_and_underscores_are_fine(name: str) -> None:
    top = ps.Topology(name)
    orders(top, name)
    assert list(top.graph.nodes) == [name]


def test_an_unknown_output_is_refused_with_the_known_ones() -> None:
    top = ps.Topology("t")
    totals = orders(top).key_by("user").process("totals", shop.Totals())
    with pytest.raises(UnknownOutput) as caught:
        totals.output("small")
    assert caught.value.condition == "UNKNOWN_OUTPUT"
    expected = {"node": "totals", "site": top.graph["totals"].site, "output": "small", "known": "out, large"}
    assert caught.value.parameters == expected
    assert isinstance(caught.value, LookupError)


def test_nothing_can_be_led_on_from_a_sink() -> None:
    top = ps.Topology("t")
    sink = orders(top).apply("out", specs.SinkSpec(ps.Collect()))
    with pytest.raises(UnknownOutput) as caught:
        sink.map("after", shop.in_euros)
    assert caught.value.parameters["known"] == "none"


def test_an_unknown_node_is_refused_with_the_known_ones() -> None:
    top = ps.Topology("t")
    orders(top)
    with pytest.raises(UnknownNode) as caught:
        top.graph["order"]
    assert caught.value.condition == "UNKNOWN_NODE"
    assert caught.value.parameters == {"node": "order", "topology": "t", "known": "orders"}
    assert str(caught.value).startswith("[UNKNOWN_NODE] no node 'order'")


@pytest.mark.parametrize(
    "build",
    [
        lambda here, there: here.topology.apply("n", specs.UnionSpec(), there),
        lambda here, there: here.key_by("user").process("n", shop.Totals(), also={"side": there.broadcast()}),
        lambda here, there: here.union("n", there),
    ],
    ids=["main", "also", "union"],
)
def test_a_stream_of_another_topology_is_refused(build: Any) -> None:
    here, there = orders(ps.Topology("mine")), orders(ps.Topology("other"))
    with pytest.raises(ForeignStream) as caught:
        build(here, there)
    assert caught.value.condition == "FOREIGN_STREAM"
    assert {k: caught.value.parameters[k] for k in ("node", "other", "topology")} == {
        "node": "n",
        "other": "other",
        "topology": "mine",
    }
    assert caught.value.parameters["site"].file == __file__


def test_a_cycle_is_told_node_by_node_and_without_those_behind_it() -> None:
    def node(name: str, *upstream: str) -> Node:
        return Node(name, specs.UnionSpec(), tuple(Edge(u) for u in upstream))

    nodes = [node("a"), node("b", "a", "d"), node("c", "b"), node("d", "c"), node("e", "d")]
    with pytest.raises(CyclicTopology) as caught:
        Graph("t", {n.name: n for n in nodes}).sorted()
    assert caught.value.condition == "CYCLIC_TOPOLOGY"
    names = caught.value.parameters["cycle"].split(" → ")
    assert names[0] == names[-1]
    assert set(names) == {"b", "c", "d"}
    assert all(f in {e.upstream for e in Graph("t", {n.name: n for n in nodes})[t].inputs}
               for f, t in pairwise(names))  # fmt: skip
    with pytest.raises(CyclicTopology):
        Graph.of("t", nodes)


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda s: s.key_by(), "columns"),
        (lambda s: s.shuffle(weights=()), "weights"),
        (lambda s: s.shuffle(weights=(1, -1)), "weights"),
        (lambda s: s.shuffle(weights=(0, 0)), "weights"),
        (lambda s: s.map("n", shop.in_euros, parallelism=0), "parallelism"),
        (lambda s: s.map("n", shop.in_euros, parallelism=40_000), "parallelism"),
        (lambda s: s.map("n", shop.in_euros, parallelism="4"), "parallelism"),
        (lambda s: s.map("n", shop.in_euros, on_error="ignore"), "on_error"),
        (lambda s: s.topology.source("n", None, rows_per_epoch=0), "rows_per_epoch"),
        (lambda s: s.topology.source("n", None, bytes_per_epoch=-1), "bytes_per_epoch"),
    ],
)
def test_arguments_out_of_range_are_refused_where_they_are_given(build: Any, what: str) -> None:
    with pytest.raises(BadArgument) as caught:
        build(orders(ps.Topology("t")))
    assert caught.value.condition == "BAD_ARGUMENT"
    assert caught.value.parameters["what"] == what
    assert "test_language.py:" in caught.value.parameters["where"]


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.map("n", shop.in_euros, returns={"a": object}),
        lambda s: s.flat_map("n", shop.in_euros, returns={"a": "int65"}),
        lambda s: s.to_one().process("n", shop.Totals(), returns={"a": object}),
        lambda s: s.to_one().process("n", shop.Totals(), outputs={"x": {"a": object}}),
        lambda s: s.dataframe("n", shop.in_euros, returns={"a": list}),
    ],
)
def test_a_declared_type_that_does_not_exist_is_refused(build: Any) -> None:
    with pytest.raises(WrongType) as caught:
        build(orders(ps.Topology("t")))
    assert caught.value.condition == "WRONG_TYPE"
    assert caught.value.parameters["node"] == "n"
    assert caught.value.parameters["site"].file == __file__


def _classes(root: type[PenstockError]) -> list[type[PenstockError]]:
    return [root, *(c for child in root.__subclasses__() for c in _classes(child))]


def test_every_error_has_a_condition_of_its_own_and_says_who_must_act() -> None:
    raised = [c for c in _classes(PenstockError) if "condition" in vars(c)]
    assert len({c.condition for c in raised}) == len(raised)
    assert all(c.__doc__ for c in _classes(PenstockError))
    assert issubclass(TopologyError, ValueError)


def test_an_error_survives_the_way_from_a_worker() -> None:
    import pickle

    error = UnknownNode(node="a", topology="t", known="b")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.parameters, str(again)) == (UnknownNode, error.parameters, str(error))
