"""Find the user's classes and functions that an operator's code refers to."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from penstock.topology.fingerprint import global_names, is_library, names_of, unwrapped

T = TypeVar("T")
_REMEMBERED = 32


@dataclass(slots=True)
class World:
    """The classes and functions that the code of an operator refers to."""

    classes: dict[tuple[str, str], type] = field(default_factory=dict)
    """By module and name: of a class that travelled as code the longer name is lost."""
    functions: dict[tuple[str, str], types.FunctionType] = field(default_factory=dict)
    codes: dict[tuple[str, str], list[tuple[types.CodeType, dict[str, Any]]]] = field(default_factory=dict)
    """Code of inner functions with its globals, in the order of the source."""

    def class_named(self, module: str, name: str) -> type | None:
        return _named(self.classes, module, name)

    def function_named(self, module: str, name: str) -> types.FunctionType | None:
        return _named(self.functions, module, name)

    def code(self, reference: tuple[str, str, int]) -> tuple[types.CodeType, dict[str, Any]] | None:
        module, name, place = reference
        found = _named(self.codes, module, name) or []
        return found[place] if place < len(found) else None


def _named(known: dict[tuple[str, str], T], module: str, name: str) -> T | None:
    """Look a name up in its module; else take the only value of that name: a script may be ``__main__``."""
    if (module, name) in known:
        return known[module, name]
    others = [value for (_, other), value in known.items() if other == name]
    return others[0] if len(others) == 1 else None


_worlds: dict[int, tuple[Any, World]] = {}


def world_of(owner: Any) -> World:
    """Return the classes and functions that the owner's code refers to, found once per owner."""
    if id(owner) not in _worlds:
        while len(_worlds) >= _REMEMBERED:
            del _worlds[next(iter(_worlds))]
        world = World()
        _explore(owner, world)
        _worlds[id(owner)] = (owner, world)  # kept: an identity may be used again
    return _worlds[id(owner)][1]


def _explore(owner: Any, world: World) -> None:
    seen: set[int] = set()
    waiting = [owner]
    while waiting:
        value = unwrapped(waiting.pop())
        if id(value) in seen or isinstance(value, str | bytes | int | float | None):
            continue
        seen.add(id(value))
        waiting.extend(_inside(value, world))


def _inside(value: Any, world: World) -> Iterator[Any]:
    if isinstance(value, type):
        if not is_library(value.__module__):
            world.classes.setdefault((value.__module__, value.__name__), value)
            yield from value.__bases__
            yield from list(vars(value).values())
    elif isinstance(value, types.FunctionType):
        if not is_library(value.__module__):
            yield from _inside_function(value, world)
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, cached_property):
        yield value.func
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif (inner := getattr(value, "py_func", None)) is not None:
        yield inner
    elif not isinstance(value, types.ModuleType):
        yield type(value)
        yield from getattr(value, "__dict__", {}).values()


def _inside_function(function: types.FunctionType, world: World) -> Iterator[Any]:
    world.functions.setdefault((function.__module__, function.__qualname__), function)
    _note_codes(function.__code__, function, world)
    yield from (function.__defaults__, function.__kwdefaults__)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    attributes = names_of(function.__code__)
    for name in sorted(set(global_names(function.__code__))):
        value = function.__globals__.get(name)
        if isinstance(value, types.ModuleType) and not is_library(value.__name__):
            yield from (vars(value)[attribute] for attribute in sorted(attributes & vars(value).keys()))
        else:
            yield value


def _note_codes(code: types.CodeType, function: types.FunctionType, world: World) -> None:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            place = world.codes.setdefault((function.__module__, constant.co_qualname), [])
            if all(constant is not known for known, _ in place):
                place.append((constant, function.__globals__))
            _note_codes(constant, function, world)
