"""Pickle a program, or a topology, so that the user's own modules travel with it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import cloudpickle

from penstock.topology.fingerprint import is_installed
from penstock.topology.graph import Graph

_PENSTOCK = str(Path(__file__).resolve().parents[1])


class HasGraph(Protocol):
    """A program or a topology."""

    @property
    def graph(self) -> Graph: ...


def dumps(shipped: HasGraph) -> bytes:
    """A program as bytes, with the folders where further modules of the user may be found."""
    with _by_value(_user_modules(shipped.graph)):
        body = cloudpickle.dumps(shipped)
    packed: bytes = cloudpickle.dumps({"search_path": [p for p in sys.path if p], "body": body})
    return packed


def loads(packed: bytes) -> Any:
    """What was shipped, with its folders on the search path."""
    values: dict[str, Any] = cloudpickle.loads(packed)
    for entry in values["search_path"]:
        if entry not in sys.path and Path(entry).is_dir():
            sys.path.append(entry)
    shipped = cloudpickle.loads(values["body"])
    _complete(shipped)
    return shipped


def _complete(shipped: HasGraph) -> None:
    """Give what an earlier Penstock pickled the fields that were added since, as they are by default."""
    _fill(shipped)
    for node in shipped.graph:
        _fill(node)
        _fill(node.spec)
        for value in vars(node.spec).values():
            _fill(value)
        for edge in node.inputs:
            _fill(edge)
            _fill(edge.route)


def _fill(value: Any) -> None:
    if isinstance(value, type) or not dataclasses.is_dataclass(value):
        return
    for field in dataclasses.fields(value):
        if hasattr(value, field.name):
            continue
        if not _is_missing(field.default):
            object.__setattr__(value, field.name, field.default)
        elif not _is_missing(field.default_factory):
            object.__setattr__(value, field.name, field.default_factory())  # type: ignore[operator]


def _is_missing(default: Any) -> bool:
    """Whether a field has no default. A class that travelled as code has a copy of the mark for that."""
    return isinstance(default, type(dataclasses.MISSING))


def search_path(packed: bytes) -> list[str]:
    """The folders that were shipped. They are plain data, whichever Python has packed them."""
    return list(cloudpickle.loads(packed)["search_path"])


def _user_modules(graph: Graph) -> set[ModuleType]:
    """Modules of functions and operators that are not installed packages.

    Workers cannot import a script by its name, and a module that was edited since must not slip
    into a version that was made before.
    """
    found = set()
    for node in graph:
        values = [*vars(node.spec).values(), *(getattr(e.route, "function", None) for e in node.inputs)]
        for value in values:
            found |= set(_modules_of(value))
    return found


def _modules_of(value: Any) -> Iterator[ModuleType]:
    inner = [getattr(value, name, None) for name in ("fn", "function", "time_of")]
    for item in (value, *inner):
        name = getattr(item, "__module__", None) or type(item).__module__
        module = sys.modules.get(name)
        if module is not None and name != "__main__" and _is_users(module):
            yield module


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = str(Path(file).resolve())
    return not is_installed(path) and not path.startswith(_PENSTOCK)


@contextmanager
def _by_value(modules: set[ModuleType]) -> Iterator[None]:
    known = cloudpickle.list_registry_pickle_by_value()
    added = [module for module in modules if module.__name__ not in known]
    for module in added:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            cloudpickle.unregister_pickle_by_value(module)
