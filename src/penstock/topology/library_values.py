"""What values of Polars, Arrow and numpy are, told without the bytes that a release makes of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from penstock.topology.fingerprint import digest_of

_PICKLES = (b"\x80\x05\x95", b"\x80\x04\x95")
_ARROW = [255, 255, 255, 255]


class Reading(Protocol):
    """A walk through a value (see ``source_digest``)."""

    by_words: bool
    met_expression: bool

    def parts(self, value: Any) -> Iterator[bytes]: ...


def of_libraries(value: Any) -> Callable[[Any, Reading], Iterator[bytes]] | None:
    """Return the function that describes a value of Polars, Arrow or numpy. Import none of them."""
    if (polars := sys.modules.get("polars")) is not None:
        if isinstance(value, polars.Expr):
            return _expression
        if isinstance(value, polars.DataFrame | polars.Series):
            return _columns
        if isinstance(value, polars.DataType):
            return _words
    if type(value).__module__ == "pyarrow.lib":
        return _arrow
    if (numpy := sys.modules.get("numpy")) is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return _array
    return None


def _array(value: Any, reading: Reading) -> Iterator[bytes]:
    yield f"{value.dtype.str} {value.shape}".encode()
    if value.dtype.hasobject:
        yield from reading.parts(value.tolist())
    else:
        yield value.tobytes()


def _columns(value: Any, reading: Reading) -> Iterator[bytes]:
    for column in value.get_columns() if hasattr(value, "get_columns") else [value]:
        yield f"{column.name} {column.dtype}".encode()
        if column.dtype.is_numeric() and not column.dtype.is_decimal() and not column.null_count():
            yield column.to_numpy().tobytes()
        else:
            yield from reading.parts(column.to_list())


def _arrow(value: Any, reading: Reading) -> Iterator[bytes]:
    """Describe a type or schema by its text, a table by its values too."""
    yield str(getattr(value, "schema", None) or getattr(value, "type", None) or value).encode()
    if hasattr(value, "to_pylist"):
        yield from reading.parts(value.to_pylist())


def _words(value: Any, _reading: Reading) -> Iterator[bytes]:
    yield str(value).encode()


def _expression(value: Any, reading: Reading) -> Iterator[bytes]:
    reading.met_expression = True
    tree = json.loads(value.meta.serialize(format="json"))
    if not reading.by_words:
        yield from _json(tree, reading)
        return
    yield str(value).encode()
    yield from sorted(_scalars(tree, reading))


def _json(tree: Any, reading: Reading) -> Iterator[bytes]:
    if isinstance(tree, dict):
        for name in sorted(tree):
            yield name.encode()
            yield from _json(tree[name], reading)
    elif content := _bytes(tree):
        yield from _content(content, reading)
    elif isinstance(tree, list):
        yield str(len(tree)).encode()
        for item in tree:
            yield from _json(item, reading)
    else:
        yield from reading.parts(tree)


def _scalars(tree: Any, reading: Reading) -> Iterator[bytes]:
    """Yield the numbers, functions and lists of an expression: Polars does not print all of them."""
    if isinstance(tree, dict):
        for item in tree.values():
            yield from _scalars(item, reading)
    elif content := _bytes(tree):
        yield digest_of(_content(content, reading))
    elif isinstance(tree, list):
        for item in tree:
            yield from _scalars(item, reading)
    elif type(tree) in (int, float):
        yield repr(tree).encode()


def _bytes(tree: Any) -> bytes | None:
    """Return the bytes that a list of numbers stands for, if it does: JSON has no bytes."""
    if isinstance(tree, list) and len(tree) > 8 and all(type(n) is int and 0 <= n < 256 for n in tree):
        return bytes(tree)
    return None


def _content(content: bytes, reading: Reading) -> Iterator[bytes]:
    """Describe a Python function or a series within an expression."""
    starts = [place for mark in _PICKLES if (place := content.find(mark, 0, 256)) >= 0]
    try:
        if starts:
            import cloudpickle

            inner = cloudpickle.loads(content[min(starts) :])
        elif list(content[:4]) == _ARROW:
            inner = sys.modules["polars"].read_ipc_stream(content)
        else:
            inner = content
    except Exception:  # noqa: BLE001 - then it counts as the bytes that it is
        inner = content
    yield from reading.parts(inner)
