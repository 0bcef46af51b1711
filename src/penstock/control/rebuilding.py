"""Rebuild stored versions for a Python or a Polars that cannot load them, from the topology that is started.

A node whose sources are what they were takes its logic from the topology in hand; what the version says
about it beside its logic (birth, place, slices) stays as it was stored. So state goes on. A version that is
entirely unchanged gets a *build* for this Python beside the original, which stays for the way back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock.control.checkpoint import last_committed, last_planned, read_offset
from penstock.control.run_directory import RunDirectory
from penstock.control.stand_ins import UnknownRoute, UnknownSpec, stand_in
from penstock.control.version_record import (
    EdgeRecord,
    NodeRecord,
    VersionRecord,
    build_name,
    made_by,
    minor,
    record_of,
)
from penstock.errors import VersionNotLoadable
from penstock.plan.passes import plan
from penstock.plan.program import Program
from penstock.topology.describe import diff
from penstock.topology.graph import Edge, Graph, Node, Spec
from penstock.topology.routes import Route
from penstock.topology.site import Site
from penstock.topology.stream import Topology


def prepare(directory: RunDirectory, present: Program) -> None:
    """Make sure that every version that is still needed can run here, before anything else is touched.

    Raises VersionNotLoadable, with what to do, if one cannot: the version of an epoch that was begun and not
    committed must run it again with the logic that it had.
    """
    current = directory.current()
    if current == 0:
        return
    needed = version_begun(directory)
    for version in sorted({current, *([needed] if needed is not None else [])}):
        record = directory.version_files.record(version)
        if record is None:
            _record_now(directory, version, present)
        elif not directory.version_files.has_build(version) and not _is_at_home(directory, version, record):
            _build(directory, version, record, present, is_needed=version == needed)
        _renew_columns(directory, version)


def stored_program(directory: RunDirectory, version: int, present: Program) -> Program:
    """Return a stored version to compare with ``present``, whichever Python made it.

    Nodes whose sources are the same are ``present``'s own. Those that differ and cannot be loaded stand for
    themselves: they cannot run, but a plan of changes needs no more than what is known of them.
    """
    record = directory.version_files.record(version)
    if record is None or _is_at_home(directory, version, record):
        return directory.load(version)
    return _Rebuilding(record, present, _loaded(directory, version)).program()


def stored_graph(directory: RunDirectory, version: int) -> Graph:
    """Return a stored graph to describe or compare; its nodes need not run."""
    try:
        return directory.load(version).graph
    except VersionNotLoadable:
        record = directory.version_files.record(version)
        if record is None:
            raise
        return graph_in_words(record, str(directory.read_card()["topology"]))


def graph_in_words(record: VersionRecord, topology: str) -> Graph:
    """Return the graph of a version of which only its record can be read."""
    nodes = {}
    for node in record.nodes:
        edges = [
            Edge(e.upstream, e.output, e.input, UnknownRoute(e.what, e.exact) if e.what else None)
            for e in node.inputs
        ]
        spec = UnknownSpec(node.what, node.exact, node.outputs)
        on_error: Any = node.on_error
        nodes[node.name] = Node(node.name, spec, tuple(edges), node.parallelism, on_error, Site(*node.site))
    return Graph(topology, nodes)


def _build(
    directory: RunDirectory, version: int, record: VersionRecord, present: Program, *, is_needed: bool
) -> None:
    rebuilding = _Rebuilding(record, present)
    if not rebuilding.changed:
        if build_name(record.made_by) != build_name(made_by()) or _loaded(directory, version) is None:
            directory.version_files.store_build(version, rebuilding.program())
        return
    if not is_needed or _loaded(directory, version) is not None:
        return
    if _is_mended(directory, rebuilding.program(), present):
        return
    unknown = [node.missing for node in record.nodes if node.name in rebuilding.changed and node.missing]
    by_which = (
        f"by Python {minor(record.made_by['python'])}" if unknown else "by this Python or the one before"
    )
    raise VersionNotLoadable(
        directory=directory.path,
        version=version,
        what=f"was made by Python {record.made_by['python']}; an epoch was begun under it and not committed, "
        f"and the topology differs from it in {', '.join(rebuilding.changed)}"
        + (f" (no source: {', '.join(unknown)})" if unknown else ""),
        next_step=f"finish that epoch first: run the topology as it was, {by_which}, with --until caught-up",
    )


def _renew_columns(directory: RunDirectory, version: int) -> None:
    """Give a version the columns that its nodes have now.

    Operators of this Penstock may pass other columns to one another than those of an earlier one did. Such
    columns live within an epoch only, so a build with the present ones can repeat any epoch.
    """
    stored = _loaded(directory, version)
    if stored is None:
        return
    schemas = plan(Topology(stored.graph.name, stored.graph)).schemas
    if schemas != stored.schemas:
        directory.version_files.store_build(version, replace(stored, schemas=schemas))


def _record_now(directory: RunDirectory, version: int, present: Program) -> None:
    """Note the sources of a version that an earlier Penstock stored, so that the next upgrade finds them."""
    stored = directory.load(version)
    if not diff(stored.graph, present.graph):
        same = {node.name: replace(node, spec=present.graph[node.name].spec) for node in stored.graph}
        directory.version_files.store_record(
            version, record_of(replace(stored, graph=Graph(stored.graph.name, same)))
        )


def _is_at_home(directory: RunDirectory, version: int, record: VersionRecord) -> bool:
    """Return whether this environment stored the version and still loads it. Modules may be moved."""
    return record.made_by == made_by() and _loaded(directory, version) is not None


def is_loadable(directory: RunDirectory, version: int) -> bool:
    """Return whether this Python can run a stored version."""
    return _loaded(directory, version) is not None


def _loaded(directory: RunDirectory, version: int) -> Program | None:
    try:
        return directory.load(version)
    except VersionNotLoadable:
        return None


def version_begun(directory: RunDirectory) -> int | None:
    """Return the version of the epoch that was begun and not committed."""
    begun, done = last_planned(directory.checkpoint), last_committed(directory.checkpoint)
    if begun is None or begun == done:
        return None
    try:
        return int(read_offset(directory.checkpoint, begun)["version"])
    except (LookupError, ValueError):  # damaged: the check that follows names the file
        return None


def _is_mended(directory: RunDirectory, stored: Program, present: Program) -> bool:
    """Return whether the epoch failed in the user's code. It then runs under the version that mends it."""
    failed = directory.read_failed()
    is_failed = failed is not None and failed == (last_planned(directory.checkpoint), "code")
    return is_failed and stored.sources.keys() == present.sources.keys()


class _Rebuilding:
    """A version made anew from its record and the topology at hand."""

    def __init__(self, record: VersionRecord, present: Program, loaded: Program | None = None) -> None:
        """Compare a record with ``present``. ``loaded`` is the version, if this Python can load it."""
        self._record = record
        self._present = present
        self._loaded = loaded
        fresh = record_of(present)
        self._fresh = {node.name: node for node in fresh.nodes}
        # Polars may print less than an expression says, so its words count only with unchanged files.
        is_other_polars = record.made_by["polars"] != fresh.made_by["polars"]
        self._words_count = is_other_polars and set(record.files.values()) <= set(fresh.files.values())
        self.changed: tuple[str, ...] = tuple(node.name for node in record.nodes if not self._is_whole(node))

    def program(self) -> Program:
        graph = Graph(self._present.graph.name, {node.name: self._node(node) for node in self._record.nodes})
        schemas = {
            place: schema for place, schema in self._present.schemas.items() if place[0] in graph.nodes
        }
        return Program(graph, schemas, **self._record.decoded_placement())

    def _is_whole(self, record: NodeRecord) -> bool:
        """Return whether all of a node can be taken from the topology at hand."""
        routes = [self._route(record.name, edge) for edge in record.inputs]
        return self._spec(record) is not None and not any(isinstance(r, UnknownRoute) for r in routes)

    def _node(self, record: NodeRecord) -> Node:
        spec = self._spec(record)
        if spec is None and self._loaded is not None and record.missing is not None:
            spec = self._loaded.graph[record.name].spec
        return Node(
            record.name,
            spec or stand_in(record),
            tuple(
                Edge(edge.upstream, edge.output, edge.input, self._route(record.name, edge))
                for edge in record.inputs
            ),
            record.parallelism,
            record.on_error,  # type: ignore[arg-type]
            Site(*record.site),
        )

    def _spec(self, record: NodeRecord) -> Spec | None:
        """Return the node's logic from the topology at hand; None if it is not the same there."""
        fresh = self._fresh.get(record.name)
        if fresh is None or fresh.kind != record.kind or not self._is_equal(record, fresh):
            return None
        return self._present.graph[record.name].spec

    def _route(self, name: str, record: EdgeRecord) -> Route | None:
        if not record.what:
            return None
        if record.route is not None:
            return record.made_route()
        fresh = self._fresh.get(name)
        for place, edge in enumerate(fresh.inputs if fresh else ()):
            if edge.ends == record.ends and self._is_equal(record, edge):
                return self._present.graph[name].inputs[place].route
        return UnknownRoute(record.what, record.exact)

    def _is_equal(self, old: NodeRecord | EdgeRecord, new: NodeRecord | EdgeRecord) -> bool:
        if old.exact is not None and old.exact == new.exact:
            return True
        return self._words_count and old.worded is not None and old.worded == new.worded
