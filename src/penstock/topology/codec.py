"""A topology as JSON and back.

Plain data is written as plain data. Functions and classes that can be imported are written by name;
what lives only in the user's script is carried as a pickle, which only a trusted reader may load.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import importlib
import sys
from pathlib import Path
from typing import Any

import cloudpickle

from penstock.errors import BadArgument
from penstock.topology.graph import Edge, Graph, Node
from penstock.topology.site import Site

FORMAT = 1
_PYTHON = f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"
_PLAIN = (str, int, float, bool, type(None))


def to_json(graph: Graph) -> dict[str, Any]:
    """The graph as JSON values."""
    return {"format": FORMAT, "name": graph.name, "nodes": [_node(node) for node in graph]}


def from_json(values: dict[str, Any]) -> Graph:
    """The graph that ``to_json`` wrote."""
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        raise BadArgument(where="topology JSON", what="format", got=repr(found), allowed=str(FORMAT))
    return Graph.of(values["name"], [_to_node(node) for node in values["nodes"]])


def _node(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "spec": encode(node.spec),
        "inputs": [
            {"upstream": e.upstream, "output": e.output, "input": e.input, "route": encode(e.route)}
            for e in node.inputs
        ],
        "parallelism": node.parallelism,
        "on_error": node.on_error,
        "site": [node.site.file, node.site.line],
    }


def _to_node(values: dict[str, Any]) -> Node:
    edges = tuple(Edge(e["upstream"], e["output"], e["input"], decode(e["route"])) for e in values["inputs"])
    return Node(
        name=values["name"],
        spec=decode(values["spec"]),
        inputs=edges,
        parallelism=values["parallelism"],
        on_error=values["on_error"],
        site=Site(*values["site"]),
    )


def encode(value: Any) -> Any:
    """One value as JSON."""
    if type(value) in _PLAIN:  # of a subclass JSON would forget the class
        return value
    if type(value) is tuple:
        return {"$tuple": [encode(item) for item in value]}
    if type(value) is list:
        return [encode(item) for item in value]
    if type(value) is dict and all(isinstance(key, str) and key[:1] != "$" for key in value):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, Path):
        return {"$path": str(value)}
    if isinstance(value, dt.timedelta):
        return {"$microseconds": value // dt.timedelta(microseconds=1)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and _importable(type(value)):
        # JSON is text for people: a field that is marked as hidden, such as a password, stays out of it.
        fields = {
            f.name: None if f.metadata.get("hidden") else encode(getattr(value, f.name))
            for f in dataclasses.fields(value)
        }
        return {"$type": _reference(type(value)), **fields}
    if callable(value) and hasattr(value, "__qualname__") and _importable(value):
        return {"$ref": _reference(value)}
    return {"$pickle": base64.b64encode(cloudpickle.dumps(value)).decode(), "$python": _PYTHON}


def decode(value: Any) -> Any:
    """The value that ``encode`` wrote."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$tuple": items}:
            return tuple(decode(item) for item in items)
        case {"$path": path}:
            return Path(path)
        case {"$microseconds": count}:
            return dt.timedelta(microseconds=count)
        case {"$ref": reference}:
            return _resolve(reference)
        case {"$pickle": text}:
            return _unpickled(base64.b64decode(text), value.get("$python", _PYTHON))
        case {"$type": reference, **fields}:
            return _construct(_resolve(reference), {k: decode(v) for k, v in fields.items()})
    return {key: decode(item) for key, item in value.items()}


def _unpickled(content: bytes, python: str) -> Any:
    """The value in a pickle; byte code of another Python would end the process that runs it."""
    if python != _PYTHON and b"_make_function" in content:
        raise BadArgument(
            where="topology JSON",
            what="the code in it",
            got=f"byte code of {python}",
            allowed=f"that of {_PYTHON}: write the JSON again from the app by this Python",
        )
    return cloudpickle.loads(content)


def _construct(cls: Any, fields: dict[str, Any]) -> Any:
    """An instance with exactly these fields, past a constructor that may take others."""
    instance = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def _importable(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    if module in (None, "__main__") or module in cloudpickle.list_registry_pickle_by_value():
        return False
    found: Any = sys.modules.get(module)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _reference(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _resolve(reference: str) -> Any:
    module, _, name = reference.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadArgument(
            where="topology JSON",
            what=f"the reference {reference!r}",
            got=f"{type(error).__name__}: {error}",
            allowed="a name that can be imported here",
        ) from error
    return found
