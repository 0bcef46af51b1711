"""The graph of a topology as frozen values: nodes, edges, and the checks that need no data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

from penstock.errors import BadNodeName, CyclicTopology, DuplicateNodeName, UnknownNode, UnknownOutput
from penstock.topology.fingerprint import fingerprint
from penstock.topology.routes import Route
from penstock.topology.site import Site

OUT = "out"
IN = "in"
OnError = Literal["stop", "dead-letter"]
NAMES = "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64 characters"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Spec:
    """What a node does; each family of operators has its own (see ``penstock.operators``)."""

    kind: ClassVar[str] = "node"

    def describe(self) -> str:
        """A few words for people, without the node's name."""
        return self.kind

    def output_names(self) -> tuple[str, ...]:
        return (OUT,)


@dataclass(frozen=True, slots=True)
class Edge:
    """One output of one node leads to one named input of another."""

    upstream: str
    output: str = OUT
    input: str = IN
    route: Route | None = None

    def describe(self) -> str:
        output = "" if self.output == OUT else f".{self.output}"
        input_ = "" if self.input == IN else f" as {self.input}"
        route = f" ({self.route.describe()})" if self.route else ""
        return f"{self.upstream}{output}{input_}{route}"


@dataclass(frozen=True)
class Node:
    """A named step. The name is its identity for state, metrics, control and messages."""

    name: str
    spec: Spec
    inputs: tuple[Edge, ...] = ()
    parallelism: int = 1
    """How many slices the node has if an exchange leads to it."""
    on_error: OnError = "stop"
    site: Site = field(default=Site("?", 0), compare=False)

    @property
    def routed(self) -> bool:
        return any(edge.route is not None for edge in self.inputs)

    @cached_property
    def logic(self) -> str:
        """A fingerprint of what the node does, wherever and whenever it was built."""
        return fingerprint(self.spec)

    def same_as(self, other: Node) -> bool:
        return self._identity() == other._identity()

    def _identity(self) -> tuple[object, ...]:
        edges = tuple((e.upstream, e.output, e.input, fingerprint(e.route)) for e in self.inputs)
        return (self.name, self.logic, edges, self.parallelism, self.on_error)


@dataclass(frozen=True)
class Graph:
    """All nodes by name, in the order of declaration. Building returns a new value."""

    name: str
    nodes: Mapping[str, Node] = field(default_factory=dict)

    def with_node(self, node: Node) -> Graph:
        """This graph and one node more, whose inputs must exist."""
        grown = self._with_name(node)
        self._check_inputs(node)
        return grown

    @classmethod
    def of(cls, name: str, nodes: Iterable[Node]) -> Graph:
        """A graph of nodes in any order, checked as a whole."""
        graph = cls(name)
        for node in nodes:
            graph = graph._with_name(node)
        for node in graph:
            graph._check_inputs(node)
        graph.sorted()
        return graph

    def _with_name(self, node: Node) -> Graph:
        if not is_name(node.name):
            raise BadNodeName(node=node.name, site=node.site)
        if node.name in self.nodes:
            first = self.nodes[node.name]
            raise DuplicateNodeName(node=node.name, site=first.site, again=node.site)
        return replace(self, nodes={**self.nodes, node.name: node})

    def _check_inputs(self, node: Node) -> None:
        for edge in node.inputs:
            upstream = self[edge.upstream]
            known = upstream.spec.output_names()
            if edge.output not in known:
                raise UnknownOutput(
                    node=upstream.name,
                    site=upstream.site,
                    output=edge.output,
                    known=", ".join(known) or "none",
                )

    def __getitem__(self, name: str) -> Node:
        try:
            return self.nodes[name]
        except KeyError:
            known = ", ".join(self.nodes) or "none"
            raise UnknownNode(node=name, topology=self.name, known=known) from None

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def consumers(self, name: str) -> tuple[tuple[Node, Edge], ...]:
        """The nodes that a node leads to, with the edge, in the order of declaration."""
        return self._consumers.get(name, ())

    @cached_property
    def _consumers(self) -> dict[str, tuple[tuple[Node, Edge], ...]]:
        found: dict[str, list[tuple[Node, Edge]]] = {}
        for node in self:
            for edge in node.inputs:
                found.setdefault(edge.upstream, []).append((node, edge))
        return {name: tuple(edges) for name, edges in found.items()}

    def sorted(self) -> tuple[Node, ...]:
        """The nodes, each after all that it depends on."""
        done: dict[str, Node] = {}
        waiting = dict(self.nodes)
        while waiting:
            ready = [n for n in waiting.values() if all(e.upstream in done for e in n.inputs)]
            if not ready:
                raise CyclicTopology(cycle=" → ".join(_cycle(waiting)))
            for node in ready:
                done[node.name] = waiting.pop(node.name)
        return tuple(done.values())

    def same_as(self, other: Graph) -> bool:
        return (
            self.name == other.name
            and self.nodes.keys() == other.nodes.keys()
            and all(node.same_as(other.nodes[node.name]) for node in self)
        )


def _cycle(waiting: Mapping[str, Node]) -> list[str]:
    """One cycle among nodes that all wait for another: the first is also the last."""
    path = [next(iter(waiting))]
    while path.count(path[-1]) < 2:
        path.append(next(e.upstream for e in waiting[path[-1]].inputs if e.upstream in waiting))
    return path[path.index(path[-1]) :][::-1]


def is_name(name: object) -> bool:
    """Whether this can name a node or a topology."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None
