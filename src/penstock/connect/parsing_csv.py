"""CSV to frames: Arrow finds the fields, the conversion of columns is ours and marks what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv

from penstock.connect.convert import convert, without_tokens
from penstock.connect.csv_options import Csv
from penstock.connect.parsing import LineParser, narrow_down, split_lines
from penstock.frames.types import empty
from penstock.topology.schema import Schema

_BROKEN = "a quote that does not end on the line, or a line break inside of a field"


@dataclass(frozen=True, slots=True)
class _Fields:
    """What Arrow found: the wanted columns as text, and the rows with a wrong number of fields."""

    text: pl.DataFrame
    wrong: dict[int, str]


class CsvRows(LineParser):
    """``names`` are the fields of a line in order; only those in the schema are read."""

    def __init__(self, schema: Schema, options: Csv, names: Sequence[str]) -> None:
        self._schema = schema
        self._options = options
        self._names = list(names)
        self.quote = options.quote.encode() if options.multiline == "quoted" else None

    def is_blank(self, line: bytes) -> bool:
        return not line  # blanks can be separators: a line of tabs is a record of nulls

    def parse(self, data: bytes) -> pl.DataFrame | None:
        if not data.strip(b"\r\n") and not split_lines(data, self)[1]:
            return empty(self._schema)
        if self.quote is None and b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
            return None
        fields = self._fields(data)
        if fields is None or fields.wrong or self._records(data, fields.text.height) != fields.text.height:
            return None
        rows, bad = self._typed(fields.text)
        return None if bad or self._is_broken(fields.text.tail(1)) else rows

    def sift(self, lines: list[bytes]) -> tuple[pl.DataFrame, dict[int, str]]:
        bad: dict[int, str] = {}

        def attempt(group: list[bytes], first: int) -> list[pl.DataFrame] | None:
            fields = self._fields(b"\n".join(group) + b"\n")
            if fields is None or fields.text.height + len(fields.wrong) != len(group):
                return None
            if self._is_broken(fields.text) or (self.quote is None and any(b"\r" in line for line in group)):
                return None
            rows, faults = self._typed(fields.text)
            numbers = [i for i in range(len(group)) if i not in fields.wrong]
            bad.update({first + i: reason for i, reason in fields.wrong.items()})
            bad.update({first + numbers[i]: reason for i, reason in faults.items()})
            return [_without(rows, list(faults))]

        def judge(line: bytes, number: int) -> None:
            bad[number] = "a carriage return inside of the line" if b"\r" in line else _BROKEN

        frames = narrow_down(lines, 0, attempt, judge)
        return pl.concat([empty(self._schema), *frames]), bad

    def _fields(self, data: bytes) -> _Fields | None:
        wrong: dict[int, str] = {}

        def skip(row: Any) -> str:
            wrong[row.number - 1] = f"{row.actual_columns} fields instead of {row.expected_columns}"
            return "skip"

        options = self._options
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(data) + 1, column_names=self._names
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=options.separator,
                    quote_char=options.quote,
                    newlines_in_values=self.quote is not None,
                    invalid_row_handler=skip,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self._schema.names, pa.large_string()),
                    include_columns=list(self._schema.names),
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        text = pl.DataFrame(pl.from_arrow(table))
        return _Fields(text, wrong)

    def _typed(self, text: pl.DataFrame) -> tuple[pl.DataFrame, dict[int, str]]:
        columns, bad = [], dict[int, str]()
        for name, kind in self._schema.columns:
            column = text[name]
            if self._options.nulls:
                column = without_tokens(column, self._options.nulls)
            values, misfits = convert(column, kind)
            columns.append(values)
            if misfits is not None:
                for i in misfits.arg_true().to_list():
                    bad.setdefault(i, f"column '{name}': {column[i][:100]!r} is not {kind}")
        return pl.DataFrame(columns), bad

    def _is_broken(self, text: pl.DataFrame) -> bool:
        """Whether a field holds a line break where none is allowed: a quote swallowed the next line."""
        if self.quote is not None or not text.height:
            return False
        return bool(text.select(pl.any_horizontal(pl.all().str.contains("\n", literal=True).any())).item())

    def _records(self, data: bytes, expected: int) -> int:
        breaks = data.count(b"\n") + (not data.endswith(b"\n"))
        return breaks if breaks == expected else len(split_lines(data, self)[1])


def _without(rows: pl.DataFrame, numbers: list[int]) -> pl.DataFrame:
    if not numbers:
        return rows
    keep = np.ones(rows.height, dtype=bool)
    keep[numbers] = False
    return rows.filter(pl.Series(keep))
