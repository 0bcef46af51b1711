"""A digest of values and the source of their code that survives a new Python and new libraries.

``fingerprint`` looks at byte code and at what libraries serialise, so it is exact within one interpreter and
says nothing across two. This digest looks at syntax trees, at the values that code uses, and at Polars
expressions by what they say. It is taken when a version is stored, where the sources lie, and compared when
the version meets another Python, Polars or Penstock.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import pathlib
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.topology.fingerprint import (
    digest_of,
    global_names,
    is_installed,
    is_library,
    names_of,
    rebuilt_from,
    unwrapped,
)
from penstock.topology.library_values import of_libraries
from penstock.topology.source_code import canonical, class_tree_of, tree_of

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class NoSource(LookupError):
    """Code whose source is not there: typed into a session, made by ``exec``, or edited since."""


@dataclass(frozen=True, slots=True)
class SourceDigest:
    """What a value is, told by sources."""

    exact: str | None
    """Equal for equal logic; None if a source is not there."""
    worded: str | None
    """The same, but with Polars expressions as Polars prints them, for a release that serialises otherwise.
    What is printed may be abridged, so this counts only if the files are unchanged."""
    files: frozenset[str]
    """The user's files that the code is from."""
    references: tuple[str, ...]
    """The user's functions and classes in it, as ``module:qualified name``."""
    missing: str | None = None
    """What has no source."""


def source_digest(value: Any) -> SourceDigest:
    """Hash what a value is, by the sources of its code."""
    exact = _Reading()
    try:
        first = _digest(value, exact)
        worded = _digest(value, _Reading(by_words=True)) if exact.met_expression else first
    except Exception as error:  # noqa: BLE001 - a user's object may raise anything
        why = str(error) if isinstance(error, NoSource) else f"{type(error).__name__}: {error}"
        return SourceDigest(None, None, frozenset(exact.files), _sorted(exact.references), why)
    return SourceDigest(first, worded, frozenset(exact.files), _sorted(exact.references))


@dataclass(slots=True)
class _Reading:
    """One walk through a value."""

    by_words: bool = False
    seen: dict[int, tuple[Any, bytes]] = field(default_factory=dict)
    """Digests by identity; the values are kept, since an identity may be used again."""
    files: set[str] = field(default_factory=set)
    references: set[str] = field(default_factory=set)
    met_expression: bool = False

    def refer(self, value: Any) -> None:
        self.references.add(f"{value.__module__}:{value.__qualname__}")

    def parts(self, value: Any) -> Iterator[bytes]:
        return _parts(value, self)


def _sorted(references: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(references))


def _digest(value: Any, reading: _Reading) -> str:
    return digest_of(_parts(value, reading)).hex()


def _parts(value: Any, reading: _Reading) -> Iterator[bytes]:
    if type(value) in _PLAIN:
        yield repr((type(value).__name__, value)).encode()
        return
    if id(value) not in reading.seen:
        reading.seen[id(value)] = (value, b"itself")
        body = digest_of((type(value).__name__.encode(), *_body(value, reading)))
        reading.seen[id(value)] = (value, body)
    yield reading.seen[id(value)][1]


def _body(value: Any, reading: _Reading) -> Iterator[bytes]:
    for kinds, parts in _KINDS:
        if isinstance(value, kinds):
            return parts(value, reading)
    if found := of_libraries(value):
        return found(value, reading)
    if dataclasses.is_dataclass(value):
        return _dataclass(value, reading)
    if inner := getattr(value, "py_func", None) or getattr(value, "__wrapped__", None):
        return _parts(inner, reading)
    return _object(value, reading)


def _function(function: types.FunctionType, reading: _Reading) -> Iterator[bytes]:
    if _is_from_library(function):
        yield _public_name(function)
    else:
        reading.refer(function)
        tree = tree_of(function.__code__)
        if tree is None:
            code = function.__code__
            raise NoSource(f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})")
        reading.files.add(function.__code__.co_filename)
        yield from canonical(tree)
    yield from _uses(function, reading)


def _uses(function: types.FunctionType, reading: _Reading) -> Iterator[bytes]:
    """Yield digests of the values that a function refers to."""
    yield from _parts(function.__defaults__, reading)
    yield from _parts(function.__kwdefaults__, reading)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            captured = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        yield name.encode()
        yield from _referred(captured, function.__code__, reading)
    if _is_from_library(function):
        return
    for name in sorted(set(global_names(function.__code__))):
        if name in function.__globals__ and not name.startswith("__"):
            yield name.encode()
            yield from _referred(function.__globals__[name], function.__code__, reading)


def _referred(value: Any, code: types.CodeType, reading: _Reading) -> Iterator[bytes]:
    """Yield digests of a value; of a user's module only of the names that the function uses."""
    if isinstance(value, types.ModuleType) and not is_library(value.__name__):
        yield value.__name__.encode()
        for name in sorted(names_of(code) & vars(value).keys()):
            yield name.encode()
            yield from _referred(vars(value)[name], code, reading)
    else:
        yield from _parts(value, reading)


def _class(cls: type, reading: _Reading) -> Iterator[bytes]:
    if is_library(cls.__module__):
        yield _public_name(cls)
        return
    reading.refer(cls)
    yield cls.__name__.encode()
    tree = _class_tree(cls, reading)
    yield from tree
    for base in cls.__bases__:
        yield from _parts(base, reading)
    for name, member in sorted(vars(cls).items()):
        member = unwrapped(member)
        if isinstance(member, types.FunctionType):
            if tree and (_is_generated(member) or _is_from_library(member)):
                # dataclass and the like made it from the class, whose source counts already.
                continue
            yield name.encode()
            yield from _parts(member, reading)
        elif not name.startswith(("__", "_abc_")):
            yield name.encode()
            yield from _parts(member, reading)


def _class_tree(cls: type, reading: _Reading) -> tuple[bytes, ...]:
    """Return the syntax tree of a class; nothing if no class statement in a file made it."""
    path, line = _place_of(cls)
    tree = class_tree_of(path, cls.__name__, line) if path else None
    if path is None or tree is None:
        return ()
    reading.files.add(path)
    return tuple(canonical(tree))


def _place_of(cls: type) -> tuple[str | None, int | None]:
    """Return the file of a class and a line in it. Its module may be unknown in this process."""
    functions = [f for f in map(unwrapped, vars(cls).values()) if isinstance(f, types.FunctionType)]
    for function in functions:
        if not (_is_generated(function) or _is_from_library(function)):
            return function.__code__.co_filename, function.__code__.co_firstlineno
    for function in functions:
        if _is_generated(function) and (path := function.__globals__.get("__file__")):
            return path, None
    path = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return (None if path is None or is_installed(path) else path), None


def _is_generated(function: types.FunctionType) -> bool:
    return function.__code__.co_filename.startswith("<")


def _is_from_library(function: types.FunctionType) -> bool:
    """Return whether a library wrote the code. Decorators give it the name of the user's module."""
    return is_library(function.__module__) or is_installed(function.__code__.co_filename)


def _public_name(value: Any) -> bytes:
    """Return a library's name for a value. Releases move values between inner modules."""
    return f"{value.__module__.partition('.')[0]}.{value.__qualname__}".encode()


def _method(method: types.MethodType, reading: _Reading) -> Iterator[bytes]:
    yield from _parts(method.__func__, reading)
    yield from _parts(method.__self__, reading)


def _builtin(function: types.BuiltinFunctionType, reading: _Reading) -> Iterator[bytes]:
    yield f"{(function.__module__ or '').partition('.')[0]}.{function.__qualname__}".encode()
    if not isinstance(function.__self__, types.ModuleType):
        yield from _parts(function.__self__, reading)


def _module(module: types.ModuleType, _reading: _Reading) -> Iterator[bytes]:
    yield module.__name__.encode()


def _enum(value: enum.Enum, reading: _Reading) -> Iterator[bytes]:
    yield from _parts(type(value), reading)
    yield value.name.encode()


def _mapping(value: Mapping[Any, Any], reading: _Reading) -> Iterator[bytes]:
    for key in value:
        yield from _parts(key, reading)
        yield from _parts(value[key], reading)


def _sequence(value: Iterable[Any], reading: _Reading) -> Iterator[bytes]:
    for item in value:
        yield from _parts(item, reading)


def _set(value: Iterable[Any], reading: _Reading) -> Iterator[bytes]:
    yield from sorted(digest_of(_parts(item, reading)) for item in value)


def _path(value: pathlib.PurePath, _reading: _Reading) -> Iterator[bytes]:
    yield str(value).encode()


def _partial(value: functools.partial[Any], reading: _Reading) -> Iterator[bytes]:
    yield from _parts((value.func, value.args, value.keywords), reading)


def _cached_property(value: functools.cached_property[Any], reading: _Reading) -> Iterator[bytes]:
    yield from _parts(value.func, reading)  # it has a lock of its own before Python 3.12


def _dataclass(value: Any, reading: _Reading) -> Iterator[bytes]:
    """Skip fields that have their default: a later release may have added them."""
    yield from _parts(type(value), reading)
    for f in dataclasses.fields(value):
        if not f.compare or _is_default(f, getattr(value, f.name)):
            continue
        yield f.name.encode()
        yield from _parts(getattr(value, f.name), reading)


def _is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    if f.default is not dataclasses.MISSING:
        return value is f.default or (type(value) in _PLAIN and bool(value == f.default))
    return False


def _object(value: Any, reading: _Reading) -> Iterator[bytes]:
    yield from _parts(type(value), reading)
    reduced = rebuilt_from(value)
    if isinstance(reduced, bytes):
        yield reduced
        return
    for part in reduced[:3]:
        yield from _parts(part, reading)
    for items in reduced[3:5]:
        yield from _sequence(items or (), reading)


_KINDS: tuple[tuple[Any, Callable[[Any, _Reading], Iterator[bytes]]], ...] = (
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (type, _class),
    (types.ModuleType, _module),
    (types.BuiltinFunctionType, _builtin),
    (enum.Enum, _enum),
    (functools.partial, _partial),
    (functools.cached_property, _cached_property),
    (pathlib.PurePath, _path),
    (Mapping, _mapping),
    (list | tuple, _sequence),
    (set | frozenset, _set),
)
