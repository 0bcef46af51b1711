"""JSON lines to frames with Polars' parser; Python's only looks at what that one refused."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from penstock.connect.convert import convert
from penstock.connect.parsing import LineParser, narrow_down, split_lines
from penstock.frames.types import empty, polars_type
from penstock.topology.schema import Schema

_LEAF = 256
_AS_IS = frozenset({"int64", "uint64", "float32", "float64", "bool", "string"})
# Polars panics on, or reads very slowly, what is not in _AS_IS; texts are converted afterwards.
_AS_TEXT = frozenset({"timestamp", "date", "time", "binary"})
_INTEGERS = {
    **{f"int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)},
    **{f"uint{b}": (0, 2**b - 1) for b in (8, 16, 32, 64)},
    "duration": (-(2**63), 2**63 - 1),
}
_NESTED_ALLOWED = re.compile(r"^(list<|struct<)")
# Half a surrogate pair, or an escaped backslash that makes it look like one: Python decides.
_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F]"
    rb"|\\\\u[dD]"
)


class JsonLines(LineParser):
    """One object per line. Missing fields are null, unknown fields are left out.

    A number, boolean, list or object where a string is wanted is taken as its JSON text.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._read_as = {name: _engine_type(kind) for name, kind in schema.columns}

    def parse(self, data: bytes) -> pl.DataFrame | None:
        if not data.strip(b" \t\r\n"):
            return empty(self._schema)
        if b"\\u" in data and any(_half_pair_line(line) for line in _suspects(data)):
            return None  # Polars reads half a surrogate pair as NUL
        try:
            rows = self._typed(pl.read_ndjson(io.BytesIO(data), schema=self._read_as))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return None
        return rows if rows is not None and rows.height == self._records(data, rows.height) else None

    def sift(self, lines: list[bytes]) -> tuple[pl.DataFrame, dict[int, str]]:
        bad: dict[int, str] = {}

        def attempt(group: list[bytes], first: int) -> list[pl.DataFrame] | None:
            rows = self.parse(b"\n".join(group))
            if rows is not None or len(group) > _LEAF:
                return None if rows is None else [rows]
            fine = []
            for i, line in enumerate(group, first):
                if reason := bad.get(i) or self._fault(line):
                    bad[i] = reason
                else:
                    fine.append(line)
            rows = self.parse(b"\n".join(fine)) if fine or len(group) > 1 else None
            return None if rows is None else [rows]

        def judge(line: bytes, number: int) -> None:
            bad.setdefault(number, self._engine_fault(line))

        frames = narrow_down(lines, 0, attempt, judge)
        return pl.concat([empty(self._schema), *frames]), bad

    def _records(self, data: bytes, expected: int) -> int:
        breaks = data.count(b"\n") + (not data.endswith(b"\n"))
        return breaks if breaks == expected else len(split_lines(data, self)[1])

    def _typed(self, rows: pl.DataFrame) -> pl.DataFrame | None:
        columns = []
        for name, kind in self._schema.columns:
            column = rows[name]
            if kind in _AS_TEXT:
                column, bad = convert(column, kind)
                if bad is not None:
                    return None
            elif column.dtype != polars_type(kind):
                column = column.cast(polars_type(kind))  # narrower integers: raises when one does not fit
            columns.append(column)
        return pl.DataFrame(columns)

    def _fault(self, line: bytes) -> str | None:
        """What is surely wrong with a line: nothing that Polars would take is named here."""
        try:
            value = json.loads(line)
        except RecursionError:
            return "nested too deeply"
        except ValueError as error:
            return f"not valid JSON: {error}"
        if not isinstance(value, dict):
            return f"not a JSON object but {_word(value)}"
        if b"\\u" in line and _has_half_pair(value):
            return "half a surrogate pair in a string"
        return next(
            (fault for name, kind in self._schema.columns if (fault := _misfit(name, kind, value))), None
        )

    def _engine_fault(self, line: bytes) -> str:
        try:
            rows = pl.read_ndjson(io.BytesIO(line), schema=self._read_as)
            for name, kind in self._schema.columns:
                if kind in _AS_TEXT and convert(rows[name], kind)[1] is not None:
                    return f"column '{name}': {rows[name][0]!r} is not a {kind}"
            self._typed(rows)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            return str(error).partition("\n")[0]
        return "not one JSON object"


def unreadable_type(kind: str) -> bool:
    """Whether JSON lines cannot hold the type: temporal and binary values inside of lists and structs."""
    inner = re.findall(r"[a-z]+\d*(?=[>,]|$)", kind) if _NESTED_ALLOWED.match(kind) else []
    return any(part in _AS_TEXT or part == "duration" for part in inner)


def _engine_type(kind: str) -> Any:
    if kind in _AS_IS:
        return polars_type(kind)
    if kind in _AS_TEXT:
        return pl.String()
    return _widened(polars_type(kind))


def _widened(kind: Any) -> Any:
    if isinstance(kind, pl.List):
        return pl.List(_widened(kind.inner))
    if isinstance(kind, pl.Struct):
        return pl.Struct({field.name: _widened(field.dtype) for field in kind.fields})
    return pl.Int64() if (kind.is_integer() and kind != pl.UInt64) or kind == pl.Duration else kind


def _misfit(name: str, kind: str, record: dict[str, Any]) -> str | None:
    value = record.get(name)
    if value is None or kind == "string":
        return None
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    elif kind.startswith("float"):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind == "bool":
        fits = isinstance(value, bool)
    elif kind.startswith(("list<", "struct<")):
        fits = isinstance(value, list if kind.startswith("list<") else dict)
    else:
        return None
    return None if fits else f"column '{name}': {json.dumps(value)[:100]} is not {kind}"


def _suspects(data: bytes) -> Iterator[bytes]:
    end = -1
    for found in _SURROGATE.finditer(data):
        if found.start() > end:
            begin = data.rfind(b"\n", 0, found.start()) + 1
            end = data.find(b"\n", found.start())
            end = len(data) if end < 0 else end
            yield data[begin:end]


def _half_pair_line(line: bytes) -> bool:
    try:
        return _has_half_pair(json.loads(line))
    except (ValueError, RecursionError):
        return False  # no JSON: refused in any case


def _has_half_pair(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _word(value: Any) -> str:
    return {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
