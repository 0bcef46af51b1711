"""What made a stored version, and what each of its nodes is by its sources.

A version carries code objects and serialised expressions, which another Python or Polars may not be able to
load. Its record is plain data, so every interpreter can read it, tell whether a topology is the same, and say
what to do if it is not.
"""

from __future__ import annotations

import dataclasses
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from penstock.connect.sealed import digest
from penstock.operators.operator import overrides
from penstock.plan.program import Program
from penstock.topology import routes
from penstock.topology.codec import decode, encode
from penstock.topology.graph import Edge, Node
from penstock.topology.routes import Route
from penstock.topology.source_digest import source_digest

FORMAT = 1
LIBRARIES = ("penstock", "polars", "pyarrow", "cloudpickle", "numpy", "numba", "pyspark")
_GRAPH = {"graph", "schemas"}
_ZIP = re.compile(r"python(\d)(\d+)\.zip$")


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    """A way into a node."""

    upstream: str
    output: str
    input: str
    what: str
    """The route in words; empty for an edge without one."""
    route: Any
    """The route's class and fields as JSON, unless it holds a function of the user's."""
    exact: str | None
    worded: str | None

    def made_route(self) -> Route:
        """Return the route that the record spells out."""
        kind = getattr(routes, self.route["class"])
        made: Route = kind(**{name: decode(value) for name, value in self.route["fields"].items()})
        return made

    @property
    def ends(self) -> tuple[str, str, str]:
        return (self.upstream, self.output, self.input)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as plain data."""

    name: str
    kind: str
    what: str
    inputs: tuple[EdgeRecord, ...]
    parallelism: int
    on_error: str
    site: tuple[str, int]
    exact: str | None
    worded: str | None
    missing: str | None
    """What of it has no source; then nothing can tell later whether it is the same."""
    references: tuple[str, ...]
    outputs: tuple[str, ...]
    state_version: int | None
    exports_state: bool


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A version as plain data."""

    made_by: Mapping[str, str]
    nodes: tuple[NodeRecord, ...]
    files: Mapping[str, str]
    """Digests of the user's files that the version is from."""
    placement: Mapping[str, Any]
    """What the program says beside the graph and its columns: the birth and the place of each node."""

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> VersionRecord:
        nodes = [
            NodeRecord(
                **{
                    **node,
                    "inputs": tuple(EdgeRecord(**edge) for edge in node["inputs"]),
                    **{name: tuple(node[name]) for name in ("site", "references", "outputs")},
                }
            )
            for node in values["nodes"]
        ]
        return cls(values["made_by"], tuple(nodes), values["files"], values["placement"])

    def placed_as(self, program: Program) -> VersionRecord:
        """Return this record for a program with the same nodes, made by this Python and placed otherwise."""
        return dataclasses.replace(self, made_by=made_by(), placement=_placement(program))

    def decoded_placement(self) -> dict[str, Any]:
        """Return the stored fields of a program that this Penstock still has."""
        known = {f.name for f in dataclasses.fields(Program)} - _GRAPH
        return {name: decode(value) for name, value in self.placement.items() if name in known}


def record_of(program: Program) -> VersionRecord:
    """Describe a program for an interpreter that cannot load it."""
    files: set[str] = set()
    nodes = [_node(node, files) for node in program.graph]
    digests = {file: found for file in sorted(files) if (found := file_digest(file))}
    return VersionRecord(made_by(), tuple(nodes), digests, _placement(program))


def _placement(program: Program) -> dict[str, Any]:
    """Return all fields of a program but the graph and its columns, as JSON."""
    return {
        f.name: encode(getattr(program, f.name)) for f in dataclasses.fields(program) if f.name not in _GRAPH
    }


@cache
def made_by() -> Mapping[str, str]:
    """Return this Python and the libraries that a stored version depends on."""
    versions = {"python": platform.python_version(), "implementation": sys.implementation.name}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:  # run from its sources
            versions[library] = "unknown"
    return versions


def minor(version: str) -> str:
    """Return the first two numbers of a version.

    >>> minor("3.11.7")
    '3.11'
    """
    return ".".join(version.split(".")[:2])


def build_name(made: Mapping[str, str]) -> str:
    """Return the environment of a build: byte code changes with Python's minor, expressions with Polars'."""
    return f"{made['implementation']}-{minor(made['python'])}-polars-{minor(made['polars'])}"


def runs_here(made: Mapping[str, str]) -> bool:
    """Return whether this Python can run the byte code."""
    present = made_by()
    return made["implementation"] == present["implementation"] and (
        minor(made["python"]) == minor(present["python"])
    )


def python_of(search_path: list[str]) -> str | None:
    """Return the Python that made a version without a record: its search path names the standard library."""
    for entry in search_path:
        if found := _ZIP.search(entry):
            return f"{found[1]}.{found[2]}"
    return None


def file_digest(file: str) -> str | None:
    """Return the digest of a file; None if it cannot be read."""
    try:
        return digest(Path(file).read_bytes()).hex()
    except OSError:
        return None


def _node(node: Node, files: set[str]) -> NodeRecord:
    found = source_digest(node.spec)
    files |= found.files
    if Path(node.site.file).is_file():
        files.add(node.site.file)
    operator = getattr(node.spec, "operator", None)
    return NodeRecord(
        name=node.name,
        kind=node.spec.kind,
        what=node.spec.describe(),
        inputs=tuple(_edge(edge, files) for edge in node.inputs),
        parallelism=node.parallelism,
        on_error=node.on_error,
        site=(node.site.file, node.site.line),
        exact=found.exact,
        worded=found.worded,
        missing=found.missing,
        references=found.references,
        outputs=node.spec.output_names(),
        state_version=getattr(operator, "state_version", None),
        exports_state=operator is not None and overrides(operator, "export_state"),
    )


def _edge(edge: Edge, files: set[str]) -> EdgeRecord:
    found = source_digest(edge.route)
    files |= found.files
    what = edge.route.describe() if edge.route else ""
    route = None if found.references or found.missing or edge.route is None else _named_route(edge.route)
    return EdgeRecord(edge.upstream, edge.output, edge.input, what, route, found.exact, found.worded)


def _named_route(route: Route) -> dict[str, Any]:
    """Return a route by the name of its class, not of its module: a later Penstock may move that."""
    fields = {f.name: encode(getattr(route, f.name)) for f in dataclasses.fields(route)}
    return {"class": type(route).__name__, "fields": fields}
