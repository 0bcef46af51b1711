"""What a user writes: a Topology, and Streams that lead from node to node."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from penstock.errors import BadArgument, ForeignStream, UnknownOutput, WrongType
from penstock.topology import codec, specs
from penstock.topology import describe as words
from penstock.topology.graph import IN, NAMES, OUT, Edge, Graph, Node, OnError, Spec, is_name
from penstock.topology.routes import Broadcast, KeyBy, PartitionBy, Route, Shuffle, ToOne
from penstock.topology.schema import Schema
from penstock.topology.site import here

SLICES = 120
"""Slices of a keyed node: a number with many divisors spreads evenly over many partitions."""
INSTANCES = 8
"""Slices of a node that rows are dealt out or copied to."""
Columns = Schema | Mapping[str, Any]


class Topology:
    """A named graph of sources, operators and sinks. Building it runs nothing.

    >>> top = Topology("empty")
    >>> print(top.describe())
    topology 'empty'
    """

    def __init__(self, name: str, graph: Graph | None = None) -> None:
        if not is_name(name):  # it also names the folder of the run
            raise BadArgument(where=f"Topology ({here()})", what="the name", got=repr(name), allowed=NAMES)
        self.graph = graph or Graph(name)

    @property
    def name(self) -> str:
        return self.graph.name

    def source(
        self,
        name: str,
        source: Any,
        *,
        rows_per_epoch: int | None = None,
        bytes_per_epoch: int | Literal["default"] | None = "default",
        idle: str | timedelta | None = "1m",
    ) -> Stream:
        """Read events; the limits say how much one epoch takes at most.

        Without a limit of rows, one of 256 MiB is the default. ``bytes_per_epoch=None`` takes all there is,
        which must then fit into memory.

        A source that had nothing new for the time ``idle`` is not waited for until it has: windows close by
        the other sources. None: it is always waited for.
        """
        from penstock.connect.durations import microseconds

        where = f"source '{name}' ({here()})"
        most_bytes = None if bytes_per_epoch == "default" else bytes_per_epoch
        for what, limit in (("rows_per_epoch", rows_per_epoch), ("bytes_per_epoch", most_bytes)):
            if limit is not None and limit < 1:
                raise BadArgument(where=where, what=what, got=limit, allowed="1 or more")
        if bytes_per_epoch is None and rows_per_epoch is None:
            most_bytes = 0  # None stands for the default, in versions stored by earlier releases as well
        idle_us = None if idle is None else microseconds(idle, where=where, what="idle")
        return self.apply(name, specs.SourceSpec(source, rows_per_epoch, most_bytes, idle_us))

    def union(self, name: str, *streams: Stream) -> Stream:
        """One stream of the rows of several that have the same columns."""
        return self.apply(name, specs.UnionSpec(), *streams)

    def apply(
        self,
        name: str,
        spec: Spec,
        *streams: Stream,
        also: Mapping[str, Stream] | None = None,
        parallelism: int | None = None,
        on_error: OnError = "stop",
    ) -> Stream:
        """Add a node of any kind: the one door that every method here uses."""
        site = here()
        for stream in (*streams, *(also or {}).values()):
            if stream.topology is not self:
                raise ForeignStream(node=name, site=site, other=stream.topology.name, topology=self.name)
        edges = [stream.edge(IN) for stream in streams]
        edges += [stream.edge(input_) for input_, stream in (also or {}).items()]
        if on_error not in get_args(OnError):
            allowed = " or ".join(map(repr, get_args(OnError)))
            raise BadArgument(
                where=f"node '{name}' ({site})", what="on_error", got=repr(on_error), allowed=allowed
            )
        count = _slices(name, edges, parallelism)
        node = Node(name, spec, tuple(edges), count, on_error, site)
        self.graph = self.graph.with_node(node)
        return Stream(self, name)

    def describe(self) -> str:
        """The topology in words, a line per node."""
        return words.describe(self.graph)

    def mermaid(self) -> str:
        """The topology as a Mermaid flow chart."""
        return words.mermaid(self.graph)

    def diff(self, other: Topology) -> words.Difference:
        """What makes this topology into the other one."""
        return words.diff(self.graph, other.graph)

    def to_json(self) -> str:
        """The topology as JSON text."""
        return json.dumps(codec.to_json(self.graph), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Topology:
        """The topology that ``to_json`` wrote. Load only what you trust: it may carry code."""
        graph = codec.from_json(json.loads(text))
        return cls(graph.name, graph)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.graph.same_as(other.graph)

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.graph.nodes)))

    def __repr__(self) -> str:
        return f"Topology({self.name!r}, {len(self.graph.nodes)} nodes)"


@dataclass(frozen=True, eq=False)
class Stream:
    """One output of a node, and how its rows are to find the next node's slices."""

    topology: Topology
    node: str
    out: str = OUT
    route: Route | None = None

    def edge(self, input_: str) -> Edge:
        """The way from here to an input of the next node."""
        return Edge(self.node, self.out, input_, self.route)

    def output(self, name: str) -> Stream:
        """Another named output of the same node."""
        node = self.topology.graph[self.node]
        if name not in node.spec.output_names():
            known = ", ".join(node.spec.output_names())
            raise UnknownOutput(node=self.node, site=node.site, output=name, known=known)
        return replace(self, out=name)

    def key_by(self, *columns: str) -> Stream:
        """Rows with equal values in these columns meet in the same slice."""
        if not columns:
            where = f"key_by ({here()})"
            raise BadArgument(where=where, what="columns", got="none", allowed="one or more names")
        return replace(self, route=KeyBy(columns))

    def shuffle(self, *, weights: tuple[float, ...] | None = None) -> Stream:
        """Deal rows out evenly, or in proportion to one weight per slice."""
        if weights is not None and (not weights or min(weights) < 0 or sum(weights) <= 0):
            raise BadArgument(
                where=f"shuffle ({here()})", what="weights", got=weights, allowed="numbers ≥ 0 with a sum > 0"
            )
        return replace(self, route=Shuffle(None if weights is None else tuple(map(float, weights))))

    def broadcast(self) -> Stream:
        """Give every row to every slice."""
        return replace(self, route=Broadcast())

    def to_one(self) -> Stream:
        """Give every row to one slice."""
        return replace(self, route=ToOne())

    def partition_by(self, function: Callable[[Any], Any]) -> Stream:
        """Let a function name the slice of each row: DataFrame in, integers out."""
        return replace(self, route=PartitionBy(function))

    def map(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        returns: Columns | None = None,
        parallelism: int | None = None,
        on_error: OnError = "stop",
    ) -> Stream:
        """Make one row of each row: DataFrame in, DataFrame of as many rows out."""
        spec = specs.MapSpec(function, _schema(name, returns))
        return self._spread(parallelism).apply(name, spec, parallelism=parallelism, on_error=on_error)

    def flat_map(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        returns: Columns | None = None,
        parallelism: int | None = None,
        on_error: OnError = "stop",
    ) -> Stream:
        """Make any number of rows of each row: DataFrame in, DataFrame out."""
        spec = specs.FlatMapSpec(function, _schema(name, returns))
        return self._spread(parallelism).apply(name, spec, parallelism=parallelism, on_error=on_error)

    def filter(
        self, name: str, keep: Any, *, parallelism: int | None = None, on_error: OnError = "stop"
    ) -> Stream:
        """Keep some rows: a Polars expression, or DataFrame in and booleans out."""
        return self._spread(parallelism).apply(
            name, specs.FilterSpec(keep), parallelism=parallelism, on_error=on_error
        )

    def union(self, name: str, *others: Stream) -> Stream:
        """One stream of these rows and those of others with the same columns."""
        return self.topology.union(name, self, *others)

    def process(
        self,
        name: str,
        operator: Any,
        *,
        returns: Columns | None = None,
        outputs: Mapping[str, Columns] | None = None,
        also: Mapping[str, Stream] | None = None,
        parallelism: int | None = None,
        on_error: OnError = "stop",
    ) -> Stream:
        """Run an operator with state per slice; ``also`` gives it further inputs by name."""
        declared = outputs if outputs is not None else (getattr(operator, "outputs", None) or {})
        spec = specs.ProcessSpec(
            operator,
            _schema(name, returns if returns is not None else getattr(operator, "returns", None)),
            tuple((output, _declared(name, columns)) for output, columns in declared.items()),
        )
        return self.apply(name, spec, also=also, parallelism=parallelism, on_error=on_error)

    def aggregate(
        self,
        name: str,
        *,
        window: Any,
        by: str | Sequence[str] = (),
        time: str = "time",
        late: Literal["counted", "kept"] = "counted",
        parallelism: int | None = None,
        **aggregates: Any,
    ) -> Stream:
        """Figures of each group and window, when no event can come into the window any more.

        Gives the group, ``start`` and ``end`` of the window, and the figures; lead ``end`` on as the time.
        Events of windows that have closed go to the output ``late``: the group, ``start`` and the number
        of ``events``, or with ``late="kept"`` the events themselves, which then travel one by one.
        """
        from penstock.operators.aggregate import aggregate

        options = {"by": by, "window": window, "time": time, "late": late, "parallelism": parallelism}
        return aggregate(self, name, aggregates, **options)

    def join(
        self,
        name: str,
        other: Stream,
        *,
        on: str | Sequence[str],
        within: str | timedelta,
        predicate: Any = None,
        how: Literal["inner", "left", "outer"] = "inner",
        time: str = "time",
        other_time: str | None = None,
        parallelism: int | None = None,
    ) -> Stream:
        """Pairs of rows with equal keys at most ``within`` apart, as soon as both are there.

        Gives the keys, the later of the two times, both times (``time_left``, ``time_right``), and the
        columns of both; one that both have gets the suffix ``_right``. ``predicate`` is a Polars expression,
        or a function from a frame to booleans, over these. ``left`` and ``outer`` also give rows that have
        found no partner, when none can come. Rows behind the punctuation go to ``late`` and ``late-other``.
        """
        from penstock.operators.join import join

        options = {"predicate": predicate, "how": how, "time": time, "other_time": other_time}
        return join(self, name, other, on=on, within=within, parallelism=parallelism, **options)

    def dedupe(
        self,
        name: str,
        by: str | Sequence[str],
        *,
        within: str | timedelta,
        time: str = "time",
        parallelism: int | None = None,
    ) -> Stream:
        """Rows that come, in event time, at least ``within`` after the last one of their key that passed."""
        from penstock.operators.ordered import dedupe

        return dedupe(self, name, by, within=within, time=time, parallelism=parallelism)

    def restore_order(self, name: str, *, by: str | Sequence[str] = (), time: str = "time") -> Stream:
        """All rows in the order of their time, in one slice; with ``by`` those of each key, in many."""
        from penstock.operators.ordered import restore_order

        return restore_order(self, name, by=by, time=time)

    def top_k(
        self,
        name: str,
        k: int,
        *,
        by: str,
        group: str | Sequence[str] = (),
        time: str = "time",
        parallelism: int | None = None,
    ) -> Stream:
        """Rows that come among the ``k`` greatest of their group, with the ``rank`` they then have."""
        from penstock.operators.ordered import top_k

        return top_k(self, name, k, by=by, group=group, time=time, parallelism=parallelism)

    def dataframe(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        returns: Columns,
        twin: Callable[[Any], Any] | None = None,
    ) -> Stream:
        """Drop to Spark: ``function`` takes and gives a streaming pyspark DataFrame.

        ``twin`` does the same in Polars for the reference engine, which has no Spark.
        """
        return self.apply(name, specs.DataFrameSpec(function, _declared(name, returns), twin))

    def sink(self, name: str, sink: Any = None) -> Topology:
        """Write the stream; a path means a Delta table there."""
        if sink is None or isinstance(sink, str | Path):
            from penstock.connect.delta import Delta

            sink = Delta(sink or f"out/{name}")
        self.apply(name, specs.SinkSpec(sink))
        return self.topology

    def apply(
        self,
        name: str,
        spec: Spec,
        *,
        also: Mapping[str, Stream] | None = None,
        parallelism: int | None = None,
        on_error: OnError = "stop",
    ) -> Stream:
        """Lead this stream into a node of any kind."""
        return self.topology.apply(name, spec, self, also=also, parallelism=parallelism, on_error=on_error)

    def _spread(self, parallelism: int | None) -> Stream:
        """A node that asks for slices of its own and has no route gets its rows dealt out."""
        return self.shuffle() if parallelism is not None and self.route is None else self


def _schema(node: str, columns: Columns | None) -> Schema | None:
    return None if columns is None else _declared(node, columns)


def _declared(node: str, columns: Columns) -> Schema:
    """The columns that a node was declared to give."""
    try:
        return Schema.of(columns)
    except BadArgument as error:
        what, got, allowed = (error.parameters[name] for name in ("what", "got", "allowed"))
        raise WrongType(node=node, site=here(), what=what, got=got, allowed=allowed) from error


def _slices(name: str, edges: list[Edge], parallelism: int | None) -> int:
    routes = [edge.route for edge in edges if edge.route is not None]
    if parallelism is not None:
        if not isinstance(parallelism, int) or not 1 <= parallelism <= 32_767:
            where = f"node '{name}' ({here()})"
            raise BadArgument(where=where, what="parallelism", got=repr(parallelism), allowed="1 to 32767")
        return parallelism
    for route in routes:
        if isinstance(route, Shuffle) and route.weights:
            return len(route.weights)
    if any(isinstance(route, KeyBy) for route in routes):
        return SLICES
    if any(isinstance(r, ToOne) for r in routes) and all(isinstance(r, ToOne | Broadcast) for r in routes):
        return 1
    return INSTANCES if routes else 1
