"""A fingerprint of values and code that survives processes, reloads and moved lines.

Two functions with the same instructions, constants, defaults and captured values have the same
fingerprint, wherever they are declared. It tells a change of logic from a mere restart.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes)


def fingerprint(value: Any) -> str:
    """Sixteen hexadecimal digits that are equal for equal logic."""
    digest = hashlib.blake2b(digest_size=8)
    for part in _parts(value, set()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    if isinstance(value, _PLAIN):
        yield repr((type(value).__name__, value)).encode()
        return
    if id(value) in seen:  # recursive functions and self-referring values
        yield b"seen"
        return
    seen.add(id(value))
    yield type(value).__qualname__.encode()
    yield from _body(value, seen)


def _body(value: Any, seen: set[int]) -> Iterator[bytes]:
    if isinstance(value, types.FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__func__, seen)
        yield from _parts(value.__self__, seen)
    elif isinstance(value, types.CodeType):
        yield from _code(value, seen)
    elif isinstance(value, type):
        yield from _class(value, seen)
    elif isinstance(value, types.ModuleType | types.BuiltinFunctionType):
        yield value.__name__.encode()
    elif isinstance(value, enum.Enum):
        yield value.name.encode()
    elif isinstance(value, Mapping):
        for key in value:
            yield from _parts(key, seen)
            yield from _parts(value[key], seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(fingerprint(item).encode() for item in value)
    elif dataclasses.is_dataclass(value):
        yield from _parts(type(value), seen)
        for f in dataclasses.fields(value):
            if f.compare:
                yield from _parts(getattr(value, f.name), seen)
    else:
        yield from _object(value, seen)


def _function(function: types.FunctionType, seen: set[int]) -> Iterator[bytes]:
    yield from _parts(function.__code__, seen)
    yield from _parts(function.__defaults__, seen)
    yield from _parts(function.__kwdefaults__, seen)
    for cell in function.__closure__ or ():
        yield from _parts(cell.cell_contents, seen)
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield name.encode()
            yield from _global(function.__globals__[name], seen)


def _global(value: Any, seen: set[int]) -> Iterator[bytes]:
    """Globals count by value if they are the user's, by name if they are a library's."""
    if isinstance(value, types.FunctionType | type) and value.__module__.partition(".")[0] in _library():
        yield f"{value.__module__}.{value.__qualname__}".encode()
    else:
        yield from _parts(value, seen)


def _library() -> frozenset[str]:
    import sys

    return frozenset(sys.stdlib_module_names) | {"penstock", "polars", "pyarrow", "numpy", "pyspark", "numba"}


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _code(code: types.CodeType, seen: set[int]) -> Iterator[bytes]:
    yield code.co_code
    for names in (code.co_names, code.co_varnames, code.co_freevars):
        yield repr(names).encode()
    for constant in code.co_consts:
        yield from _parts(constant, seen)


def _class(cls: type, seen: set[int]) -> Iterator[bytes]:
    yield cls.__qualname__.encode()
    if cls.__module__.partition(".")[0] in _library():
        return
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, types.FunctionType | classmethod | staticmethod | property) or not name.startswith("_"):
            yield name.encode()
            yield from _parts(_unwrapped(member), seen)


def _unwrapped(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _object(value: Any, seen: set[int]) -> Iterator[bytes]:
    yield from _parts(type(value), seen)
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # NumPy arrays
        yield str(value.dtype).encode()
        yield value.tobytes()
    elif vars_ := getattr(value, "__dict__", None):
        yield from _parts(vars_, seen)
    else:
        yield repr(value).encode() if type(value).__repr__ is not object.__repr__ else b""
