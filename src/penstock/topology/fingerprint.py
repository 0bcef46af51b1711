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
from pathlib import Path
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"penstock"}
_FOLDERS = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
_INSTALLED = tuple({path + os.sep for folder in _FOLDERS for path in (folder, os.path.realpath(folder))})
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_Seen = dict[int, tuple[Any, bytes]]
"""Digests by identity. The values are kept too: an identity may be used again once its value is gone."""


def fingerprint(value: Any) -> str:
    """Sixteen hexadecimal digits that are equal for equal logic."""
    return digest_of(_parts(value, {})).hex()


def digest_of(parts: Iterable[bytes]) -> bytes:
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
        body = digest_of((type(value).__name__.encode(), *_body(value, seen)))
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
    is_named = is_library(function.__module__)
    if is_named:  # it is shipped by name too
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
    for name in () if is_named else sorted(set(global_names(function.__code__))):
        if name in function.__globals__:
            yield name.encode()
            yield from _referred(function.__globals__[name], function.__code__, seen)


def _referred(value: Any, code: types.CodeType, seen: _Seen) -> Iterator[bytes]:
    """A module of the user's counts by what the function may use of it."""
    if isinstance(value, types.ModuleType) and not is_library(value.__name__):
        yield value.__name__.encode()
        for name in sorted(names_of(code) & vars(value).keys()):
            yield name.encode()
            yield from _referred(vars(value)[name], code, seen)
    else:
        yield from _parts(value, seen)


@lru_cache(maxsize=4096)
def is_library(module: str | None) -> bool:
    """Whether the module is installed, as opposed to being the user's own.

    A script is the user's also in a driver or worker, whose own ``__main__`` is a module of a library.
    """
    if module == "__main__":
        return False
    top = (module or "").partition(".")[0]
    if top in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return file is not None and is_installed(file)


def is_installed(file: str) -> bool:
    """Whether a source file came with Python or with an installed package.

    Packages may lie outside of this environment's own folder: those of the system below one of its
    environments, and those of ``pip install --target``.
    """
    return file.startswith(_INSTALLED) or not _PACKAGES.isdisjoint(Path(file).parts)


def global_names(code: types.CodeType) -> Iterator[str]:
    """Names looked up in the module, as opposed to names of attributes."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _GLOBAL:
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from global_names(constant)


def names_of(code: types.CodeType) -> set[str]:
    inner = [names_of(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
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
    if is_library(cls.__module__):
        yield f"{cls.__module__}.{cls.__qualname__}".encode()
        return
    yield cls.__name__.encode()  # the longer name is lost when the class travels as code
    for base in cls.__bases__:
        yield from _parts(base, seen)
    for name, member in sorted(vars(cls).items()):
        is_logic = isinstance(member, types.FunctionType | classmethod | staticmethod | property)
        if is_logic or not name.startswith(("__", "_abc_")):
            yield name.encode()
            yield from _parts(unwrapped(member), seen)


def unwrapped(member: Any) -> Any:
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
    yield from sorted(digest_of(_parts(item, seen)) for item in value)


def _dataclass(value: Any, seen: _Seen) -> Iterator[bytes]:
    yield from _parts(type(value), seen)
    for f in dataclasses.fields(value):
        if f.compare:
            yield from _parts(getattr(value, f.name), seen)


def _object(value: Any, seen: _Seen) -> Iterator[bytes]:
    """Anything else by what it would be rebuilt from in another process."""
    yield from _parts(type(value), seen)
    reduced = rebuilt_from(value)
    if isinstance(reduced, bytes):
        yield reduced
        return
    for part in reduced[:3]:
        yield from _parts(part, seen)
    for items in reduced[3:5]:
        yield from _sequence(items or (), seen)


def rebuilt_from(value: Any) -> tuple[Any, ...] | bytes:
    """What pickling would rebuild a value from; its name or its words if that is all there is."""
    try:
        reduce = copyreg.dispatch_table.get(type(value))
        reduced: Any = reduce(value) if reduce else value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - a lock, a socket: what cannot be shipped is refused elsewhere
        return _ADDRESS.sub("", repr(value)).encode()
    return reduced.encode() if isinstance(reduced, str) else tuple(reduced)


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
