"""Column names and types as frozen text, so that a topology needs neither Polars nor Arrow.

>>> Schema.of({"user": str, "clicks": int})
Schema(user: string, clicks: int64)
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import BadArgument

SCALARS = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 "
    "string binary date time timestamp duration".split()
)
_PYTHON: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    dt.datetime: "timestamp",
    dt.date: "date",
    dt.time: "time",
    dt.timedelta: "duration",
}
_POLARS = {
    "Boolean": "bool",
    "String": "string",
    "Utf8": "string",
    "Binary": "binary",
    "Date": "date",
    "Time": "time",
    "Categorical": "string",
    **{f"{kind}{bits}": f"{kind.lower()}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)},
    "Float32": "float32",
    "Float64": "float64",
}
_NESTED = re.compile(r"^(list|struct)<(.*)>$")


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered set of named columns. Structural equality, no imports."""

    columns: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, columns: Schema | Mapping[str, Any]) -> Schema:
        """Make a schema from Python types, type names or Polars types."""
        if isinstance(columns, Schema):
            return columns
        return cls(tuple((str(name), type_name(kind)) for name, kind in columns.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known, _ in self.columns)

    def __getitem__(self, name: str) -> str:
        return dict(self.columns)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        return f"Schema({self})"

    def __str__(self) -> str:
        return ", ".join(f"{name}: {kind}" for name, kind in self.columns)


def type_name(kind: Any) -> str:
    """The name of a column type given as a Python type, a name or a Polars type.

    >>> type_name(int), type_name("list<string>")
    ('int64', 'list<string>')
    """
    if isinstance(kind, type) and kind in _PYTHON:
        return _PYTHON[kind]
    if isinstance(kind, str):
        return _checked(kind)
    return _from_polars(kind)


def split_fields(inner: str) -> list[str]:
    """Split the inside of ``struct<…>`` at its outermost commas."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(inner):
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(inner[start:i])
            start = i + 1
    return [*parts, inner[start:]]


def _checked(name: str) -> str:
    if name in SCALARS:
        return name
    if nested := _NESTED.match(name):
        kind, inner = nested.groups()
        if kind == "list":
            return f"list<{_checked(inner)}>"
        fields = [field.partition(":") for field in split_fields(inner)]
        return "struct<" + ",".join(f"{n.strip()}:{_checked(t.strip())}" for n, _, t in fields) + ">"
    allowed = ", ".join(sorted(SCALARS)) + ", list<…>, struct<…>"
    raise BadArgument(where="schema", what="a column type", got=repr(name), allowed=allowed)


def _from_polars(kind: Any) -> str:
    text = str(kind)
    base = text.partition("(")[0]
    if base in _POLARS:
        return _POLARS[base]
    if base == "Datetime":
        return "timestamp"
    if base == "Duration":
        return "duration"
    if base == "List":
        return f"list<{_from_polars(kind.inner)}>"
    if base == "Struct":
        return "struct<" + ",".join(f"{f.name}:{_from_polars(f.dtype)}" for f in kind.fields) + ">"
    return _checked(text)
