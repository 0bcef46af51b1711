"""A fingerprint of values and code that survives processes, reloads and moved lines.

Two functions with the same instructions, constants, defaults, captured values and helpers have the
same fingerprint, wherever they are declared. It tells a change of logic from a mere restart, so a
difference that it misses is a change that is never applied.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import enum
import hashlib
import os
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"penstock"}
_INSTALLED = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_Seen = dict[int, tuple[Any, bytes]]
"""Digests by identity. The values are kept too: an identity may be used again once its value is gone."""


def fingerprint(value: Any) -> str:
    """Sixteen hexadecimal digits that are equal for equal logic."""
    return _digest(_parts(value, {})).hex()


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _parts(value: Any, seen: _Seen) -> Iterator[bytes]:
    if type(value) in _PLAIN:
        yield repr((type(value).__name__, value)).encode()
        return
    if id(value) not in seen:
        seen[id(value)] = (value, b"itself")  # recursive functions and self-referring values
        body = _digest((type(value).__name__.encode(), *_body(value, seen)))
        seen[id(value)] = (value, body)
    yield seen[id(value)][1]


def _body(value: Any, seen: _Seen) -> Iterator[bytes]:
    for kinds, parts in _KINDS:
        if isinstance(value, kinds):
            return parts(value, seen)
    if dataclasses.is_dataclass(value):
        return _dataclass(value, seen)
    if inner := getattr(value, "py_func", None) or getattr(value, "__wrapped__", None):
        return _parts(inner, seen)  # compiled by numba, or cached: what it came from
    return _object(value, seen)


def _function(function: types.FunctionType, seen: _Seen) -> Iterator[bytes]:
    is_library = _is_library(function.__module__)
    if is_library:  # it is shipped by name too
        yield f"{function.__module__}.{function.__qualname__}".encode()
    else:
        yield from _parts(function.__code__, seen)
    yield from _parts(function.__defaults__, seen)
    yield from _parts(function.__kwdefaults__, seen)
    for cell in function.__closure__ or ():
        try:
            captured = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        yield from _referred(captured, function.__code__, seen)
    for name in () if is_library else sorted(set(_global_names(function.__code__))):
        if name in function.__globals__:
            yield name.encode()
            yield from _referred(function.__globals__[name], function.__code__, seen)


def _referred(value: Any, code: types.CodeType, seen: _Seen) -> Iterator[bytes]:
    """A module of the user's counts by what the function may use of it."""
    if isinstance(value, types.ModuleType) and not _is_library(value.__name__):
        yield value.__name__.encode()
        for name in sorted(_names(code) & vars(value).keys()):
            yield name.encode()
            yield from _referred(vars(value)[name], code, seen)
    else:
        yield from _parts(value, seen)


@lru_cache(maxsize=4096)
def _is_library(module: str | None) -> bool:
    """Whether the module is installed, as opposed to being the user's own."""
    top = (module or "").partition(".")[0]
    if top in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return file is not None and file.startswith(_INSTALLED)


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names looked up in the module, as opposed to names of attributes."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*inner)


def _code(code: types.CodeType, seen: _Seen) -> Iterator[bytes]:
    yield code.co_code
    yield code.co_exceptiontable
    for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        yield repr(names).encode()
    yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)).encode()
    for constant in code.co_consts:
        yield from _parts(constant, seen)


def _class(cls: type, seen: _Seen) -> Iterator[bytes]:
    if _is_library(cls.__module__):
        yield f"{cls.__module__}.{cls.__qualname__}".encode()
        return
    yield cls.__name__.encode()  # the longer name is lost when the class travels as code
    for base in cls.__bases__:
        yield from _parts(base, seen)
    for name, member in sorted(vars(cls).items()):
        is_logic = isinstance(member, types.FunctionType | classmethod | staticmethod | property)
        if is_logic or not name.startswith(("__", "_abc_")):
            yield name.encode()
            yield from _parts(_unwrapped(member), seen)


def _unwrapped(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _method(method: types.MethodType, seen: _Seen) -> Iterator[bytes]:
    yield from _parts(method.__func__, seen)
    yield from _parts(method.__self__, seen)


def _builtin(function: types.BuiltinFunctionType, seen: _Seen) -> Iterator[bytes]:
    yield f"{function.__module__}.{function.__qualname__}".encode()
    if not isinstance(function.__self__, types.ModuleType):
        yield from _parts(function.__self__, seen)


def _module(module: types.ModuleType, seen: _Seen) -> Iterator[bytes]:
    yield module.__name__.encode()


def _enum(value: enum.Enum, seen: _Seen) -> Iterator[bytes]:
    yield value.name.encode()


def _mapping(value: Mapping[Any, Any], seen: _Seen) -> Iterator[bytes]:
    for key in value:
        yield from _parts(key, seen)
        yield from _parts(value[key], seen)


def _sequence(value: Iterable[Any], seen: _Seen) -> Iterator[bytes]:
    for item in value:
        yield from _parts(item, seen)


def _set(value: Iterable[Any], seen: _Seen) -> Iterator[bytes]:
    yield from sorted(_digest(_parts(item, seen)) for item in value)


def _dataclass(value: Any, seen: _Seen) -> Iterator[bytes]:
    yield from _parts(type(value), seen)
    for f in dataclasses.fields(value):
        if f.compare:
            yield from _parts(getattr(value, f.name), seen)


def _object(value: Any, seen: _Seen) -> Iterator[bytes]:
    """Anything else by what it would be rebuilt from in another process."""
    yield from _parts(type(value), seen)
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - a lock, a socket: what cannot be shipped is refused elsewhere
        yield _ADDRESS.sub("", repr(value)).encode()
        return
    if isinstance(reduced, str):
        yield reduced.encode()
        return
    for part in reduced[:3]:
        yield from _parts(part, seen)
    for items in reduced[3:5]:
        yield from _sequence(items or (), seen)


_KINDS: tuple[tuple[Any, Callable[[Any, _Seen], Iterator[bytes]]], ...] = (
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (types.CodeType, _code),
    (type, _class),
    (types.ModuleType, _module),
    (types.BuiltinFunctionType, _builtin),
    (enum.Enum, _enum),
    (Mapping, _mapping),
    (list | tuple, _sequence),
    (set | frozenset, _set),
)
