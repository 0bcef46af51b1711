"""The compiler: a list of named pure passes, each one line of before → after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from penstock.errors import BadArgument, EmptyTopology, SchemaMismatch, WrongType
from penstock.frames.slices import address
from penstock.plan.inference import output_schemas, require_columns
from penstock.plan.program import Program
from penstock.plan.shipping import check_shippable
from penstock.topology import specs
from penstock.topology.graph import IN, Graph, Node
from penstock.topology.routes import KeyBy, PartitionBy, Shuffle
from penstock.topology.schema import Schema
from penstock.topology.stream import Topology


@dataclass(frozen=True)
class Draft:
    """A program in the making."""

    graph: Graph
    schemas: Mapping[tuple[str, str], Schema] = field(default_factory=dict)
    depth: Mapping[str, int] = field(default_factory=dict)


def check_ends(draft: Draft) -> Draft:
    """any graph → a graph with a source and a sink, and no cycle."""
    kinds = {node.spec.kind for node in draft.graph}
    for kind, how in (("source", "top.source(name, …)"), ("sink", "stream.sink(name, …)")):
        if kind not in kinds:
            raise EmptyTopology(topology=draft.graph.name, missing=kind, how=how)
    draft.graph.sorted()
    return draft


def check_routes(draft: Draft) -> Draft:
    """any edges → edges whose routes fit the node that they lead to."""
    for node in draft.graph:
        _check_node_routes(node)
    return draft


def infer_schemas(draft: Draft) -> Draft:
    """columns of the sources → columns on every output."""
    schemas: dict[tuple[str, str], Schema] = {}
    for node in draft.graph.sorted():
        inputs: dict[str, Schema] = {}
        for edge in node.inputs:
            got = schemas[edge.upstream, edge.output]
            if isinstance(edge.route, KeyBy):
                require_columns(node, edge.route.columns, got)
            if inputs.setdefault(edge.input, got) != got:
                raise SchemaMismatch(
                    node=node.name,
                    site=node.site,
                    what="the streams that meet here have different columns",
                    expected=inputs[edge.input],
                    got=got,
                )
        for output, schema in output_schemas(node, inputs).items():
            schemas[node.name, output] = schema
    return replace(draft, schemas=schemas)


def ship(draft: Draft) -> Draft:
    """any functions → functions that can be sent to the workers."""
    for node in draft.graph:
        check_shippable(node)
    return draft


def place_hops(draft: Draft) -> Draft:
    """graph → the number of exchanges in front of each node."""
    depth: dict[str, int] = {}
    for node in draft.graph.sorted():
        before = max((depth[edge.upstream] for edge in node.inputs), default=0)
        exchange = node.routed and not isinstance(node.spec, specs.SinkSpec)
        depth[node.name] = before + (1 if exchange else 0)
    return replace(draft, depth=depth)


def check_addresses(draft: Draft) -> Draft:
    """names → names whose slices have addresses of their own."""
    taken: dict[int, str] = {}
    for node in draft.graph:
        other = taken.setdefault(address(node.name, 0), node.name)
        if other != node.name:
            raise BadArgument(
                where=f"node '{node.name}' ({node.site})",
                what="the name",
                got=f"one whose hash is that of '{other}'",
                allowed="another name",
            )
    return draft


PASSES: tuple[Callable[[Draft], Draft], ...] = (
    check_ends,
    check_routes,
    infer_schemas,
    ship,
    place_hops,
    check_addresses,
)


def plan(topology: Topology) -> Program:
    """Check a topology and place its nodes. Raises TopologyError; starts nothing."""
    draft = Draft(topology.graph)
    for step in PASSES:
        draft = step(draft)
    return Program(draft.graph, draft.schemas, draft.depth)


def _check_node_routes(node: Node) -> None:
    _check_inputs(node)
    routes = [edge.route for edge in node.inputs]
    where = f"node '{node.name}' ({node.site})"
    if isinstance(node.spec, specs.ProcessSpec) and not all(routes):
        raise BadArgument(
            where=where,
            what="an input of process",
            got="a stream without routing",
            allowed="key_by(…), shuffle(), broadcast(), to_one() or partition_by(…) before process",
        )
    if node.routed and not all(routes):
        raise BadArgument(
            where=where,
            what="the inputs",
            got="some with and some without routing",
            allowed="routing on all of them or on none",
        )
    if node.routed and isinstance(node.spec, specs.DataFrameSpec | specs.SinkSpec):
        raise BadArgument(
            where=where,
            what=f"the input of {node.spec.kind}",
            got="a routed stream",
            allowed="a stream without routing: Spark and sinks place rows themselves",
        )
    for route in routes:
        if isinstance(route, Shuffle) and route.weights and len(route.weights) != node.parallelism:
            raise BadArgument(
                where=where,
                what="the number of weights",
                got=len(route.weights),
                allowed=f"one per slice ({node.parallelism})",
            )
        if isinstance(route, PartitionBy) and not callable(route.function):
            raise WrongType(
                node=node.name,
                site=node.site,
                what="the argument of partition_by",
                got=type(route.function).__name__,
                allowed="a function",
            )


def _check_inputs(node: Node) -> None:
    is_source = isinstance(node.spec, specs.SourceSpec)
    if is_source == any(edge.input == IN for edge in node.inputs):
        raise BadArgument(
            where=f"node '{node.name}' ({node.site})",
            what=f"the inputs of {node.spec.kind}",
            got=", ".join(edge.describe() for edge in node.inputs) or "none",
            allowed="none" if is_source else "a stream to work on",
        )
