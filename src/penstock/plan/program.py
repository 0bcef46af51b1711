"""A planned topology: what the workers of every epoch of a version carry out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.connect.source import Identity
from penstock.operators.operator import overrides
from penstock.topology import specs
from penstock.topology.graph import IN, Edge, Graph, Node
from penstock.topology.schema import Schema


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which source the offsets under a name belong to, and the version in which they began."""

    identity: Identity
    generation: int = 0
    """0 for a source that has never started anew."""


@dataclass(frozen=True)
class Program:
    """The graph, the columns on each output, and the place of each node in the fabric."""

    graph: Graph
    schemas: Mapping[tuple[str, str], Schema]
    depth: Mapping[str, int]
    """Exchanges between the sources and the node: the hop of a hosted node."""
    born: Mapping[str, int] = field(default_factory=dict)
    """The version in which each hosted node's state began."""
    lineages: Mapping[str, Lineage] = field(default_factory=dict)
    """Of each source that the run has or had, what its offsets belong to."""

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update({"lineages": {}, **values})  # versions stored before have none

    def generation(self, source: str) -> int:
        """Return the version in which a source's offsets began; 0 if it never started anew."""
        return self.lineages[source].generation if source in self.lineages else 0

    def source_key(self, source: str) -> str:
        """Return the name of a source and its generation: of its folder, and of what is noted about it.

        No node has an "@" in its name.
        """
        generation = self.generation(source)
        return f"{source}@{generation}" if generation else source

    @cached_property
    def sources(self) -> dict[str, specs.SourceSpec]:
        return {n.name: n.spec for n in self.graph if isinstance(n.spec, specs.SourceSpec)}

    @cached_property
    def sinks(self) -> dict[str, specs.SinkSpec]:
        return {n.name: n.spec for n in self.graph if isinstance(n.spec, specs.SinkSpec)}

    @cached_property
    def natives(self) -> tuple[Node, ...]:
        """The nodes that are Spark DataFrames, each after those it depends on."""
        return tuple(n for n in self.graph.sorted() if isinstance(n.spec, specs.DataFrameSpec))

    @cached_property
    def hosted(self) -> dict[str, Node]:
        """The nodes that an exchange leads to: they have slices."""
        return {n.name: n for n in self.graph if n.routed and not isinstance(n.spec, specs.SinkSpec)}

    @property
    def hops(self) -> int:
        return max((self.depth[name] for name in self.hosted), default=0)

    def waiting_sinks(self, hop: int) -> frozenset[str]:
        """The sinks for which what leaves a hop has to pass further hops; sources are hop 0."""
        return frozenset(self.sinks if hop < self.hops else ())

    @cached_property
    def punctuated(self) -> tuple[Node, ...]:
        """The hosted nodes that want to know how far time has moved."""
        return tuple(
            n
            for n in self.hosted.values()
            if isinstance(n.spec, specs.ProcessSpec) and overrides(n.spec.operator, "on_punctuation")
        )

    def judges(self, node: Node) -> bool:
        """Whether a node puts rows aside that are late at their own position."""
        return isinstance(node.spec, specs.ProcessSpec) and overrides(node.spec.operator, "is_late")

    @cached_property
    def watermarked(self) -> frozenset[str]:
        """The nodes whose rows take their watermarks along: those that judge, and stateless ones before them.

        State cuts the way: no row that an operator emits has a position of its own in a source.
        """
        found: set[str] = set()
        for node in reversed(self.graph.sorted()):
            leads_on = any(consumer.name in found for consumer, _ in self.graph.consumers(node.name))
            if self.judges(node) or (isinstance(node.spec, specs.STATELESS) and leads_on):
                found.add(node.name)
        return frozenset(found)

    @cached_property
    def _watermarks_of(self) -> dict[str, tuple[Node, ...]]:
        """Of each source and stateless node: the nodes behind the next exchange that want its watermarks."""
        found: dict[str, tuple[Node, ...]] = {}
        for node in reversed(self.graph.sorted()):
            reached: dict[str, Node] = {}
            for consumer, _ in self.graph.consumers(node.name):
                if consumer.name in self.watermarked:
                    nodes = found[consumer.name] if self.is_fused(consumer) else (consumer,)
                    reached.update({reached_.name: reached_ for reached_ in nodes})
            found[node.name] = tuple(reached.values())
        return found

    def wants_watermarks(self, source: str) -> tuple[Node, ...]:
        """The nodes behind the first exchange that want to know the watermarks of a source's rows."""
        return self._watermarks_of[source]

    @cached_property
    def _late_of(self) -> dict[str, str]:
        first: dict[str, str] = {}
        for node in self.graph:
            for source in self.sources_of(node.name) if self.judges(node) else ():
                first.setdefault(source, node.name)
        return first

    def late_source(self, node: str, origin: str) -> str | None:
        """Return the source to count a late row for; None if another node counts, or if it is not known.

        The first operator that judges counts for a source, in the order of declaration: each would count all.
        """
        sources = self.sources_of(origin.partition("|")[0].partition("#")[0])
        source = next(iter(sources)) if len(sources) == 1 else None
        return source if source is not None and self._late_of.get(source) == node else None

    @cached_property
    def _sources_of(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for node in self.graph.sorted():
            own = [node.name] if node.name in self.sources else []
            found[node.name] = frozenset(own).union(*(found[edge.upstream] for edge in node.inputs))
        return found

    def sources_of(self, node: str) -> frozenset[str]:
        """The sources that lead to a node."""
        return self._sources_of[node]

    @cached_property
    def _declared(self) -> dict[str, int]:
        return {node.name: number for number, node in enumerate(self.graph)}

    def arrival_order(self, node: str, input_: str, origin: str) -> tuple[int, int, str]:
        """Return what orders the frames of one epoch at a node, before their positions.

        The inputs named in ``also=`` come first, as they are declared, then the main input: rules and tables
        are there when the rows come that need them. Within an input the senders come as they are declared.
        """
        sides = [edge.input for edge in self.graph[node].inputs if edge.input != IN]
        sender = origin.partition("|")[0].partition("#")[0]
        return (
            len(sides) if input_ == IN else sides.index(input_),
            self._declared.get(sender, len(self._declared)),
            origin,
        )

    def input_schema(self, edge: Edge) -> Schema:
        return self.schemas[edge.upstream, edge.output]

    def edge_into(self, node: str, input_: str) -> Edge:
        """One edge of the input; all edges of an input have the same columns."""
        return next(e for e in self.graph[node].inputs if e.input == input_)

    def is_fused(self, node: Node) -> bool:
        """Whether the node runs inside the worker that its input is in."""
        return isinstance(node.spec, specs.STATELESS) and not node.routed
