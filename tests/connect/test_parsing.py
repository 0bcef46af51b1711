"""Lines to rows: what each format takes, what it refuses, and that a line is judged by itself."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

import polars as pl
import pytest

from penstock.connect.convert import convert
from penstock.connect.csv_options import Csv
from penstock.connect.parsing import Parser, TextLines
from penstock.connect.parsing_csv import CsvRows
from penstock.connect.parsing_json import JsonLines
from penstock.errors import BadArgument
from penstock.topology.schema import Schema

WIDE = Schema.of(
    {"i": int, "s": str, "f": float, "b": bool, "t": datetime, "d": date, "l": "list<int64>", "small": "int8"}
    | {
        "st": "struct<x:int64,y:string>",
        "u": "uint64",
        "bin": bytes,
        "dur": timedelta,
        "nested": "list<int8>",
    }
)


def _parse(parser: Parser, data: bytes) -> tuple[pl.DataFrame, list[tuple[int, bytes, str]]]:
    bad: list[tuple[int, bytes, str]] = []
    return parser.block(data, lambda *fault: bad.append(fault)), bad


def _csv(
    data: bytes, columns: dict[str, Any], **options: Any
) -> tuple[pl.DataFrame, list[tuple[int, bytes, str]]]:
    return _parse(CsvRows(Schema.of(columns), Csv(**options), list(columns)), data)


@pytest.mark.parametrize(
    ("line", "column", "value"),
    [
        (b'{"i": -5}', "i", -5),
        (b'{"i": null}', "i", None),
        (b"{}", "i", None),
        (b'{"other": {"i": 3}}', "i", None),
        (b' {"i": 1} \r', "i", 1),
        (b'{"s": "\\ud83d\\ude00 \xc3\xbc"}', "s", "😀 ü"),
        (b'{"s": "\\\\ud800"}', "s", "\\ud800"),
        (b'{"s": 5}', "s", "5"),
        (b'{"f": 3}', "f", 3.0),
        (b'{"b": false}', "b", False),
        (b'{"l": [1, null]}', "l", [1, None]),
        (b'{"small": -128}', "small", -128),
        (b'{"nested": [127]}', "nested", [127]),
        (b'{"st": {"x": 1}}', "st", {"x": 1, "y": None}),
        (b'{"u": 18446744073709551615}', "u", 2**64 - 1),
        (b'{"bin": "ab"}', "bin", b"ab"),
        (b'{"dur": 1500000}', "dur", timedelta(seconds=1.5)),
        (b'{"d": "2024-02-29"}', "d", date(2024, 2, 29)),
        (b'{"t": "2024-01-01T00:00:00.5Z"}', "t", datetime(2024, 1, 1, 0, 0, 0, 500000)),
    ],
)
def test_json_takes(line: bytes, column: str, value: object) -> None:
    rows, bad = _parse(JsonLines(WIDE), line + b"\n")
    assert bad == []
    assert rows[column].to_list() == [value]


@pytest.mark.parametrize(
    "line",
    [
        b'{"i": "x"}',
        b'{"i": 1.5}',
        b'{"i": 1.0}',
        b'{"i": true}',
        b'{"i": 9223372036854775808}',
        b'{"i": 1',
        b'{"i": 1}{"i": 2}',
        b'{"i": 1} x',
        b"[1]",
        b"5",
        b"null",
        b"garbage",
        b'{"s": "\\ud800"}',
        b'{"s": "\\udc00 \\ud800"}',
        b'{"s": "\xff"}',
        b'{"s": "a\x01"}',
        b'{"f": "1"}',
        b'{"f": NaN}',
        b'{"b": 1}',
        b'{"l": 5}',
        b'{"l": ["a"]}',
        b'{"small": 128}',
        b'{"nested": [128]}',
        b'{"st": 5}',
        b'{"st": {"x": "q"}}',
        b'{"u": -1}',
        b'{"d": "yesterday"}',
        b'{"t": "2024-02-30T00:00:00"}',
        b'{"t": 1700000000}',
    ],
)
def test_json_refuses_one_line_and_keeps_its_neighbours(line: bytes) -> None:
    data = b'{"i": 1}\n' + line + b'\n{"i": 2}\n'
    rows, bad = _parse(JsonLines(WIDE), data)
    assert rows["i"].to_list() == [1, 2]
    assert [(place, raw) for place, raw, _ in bad] == [(9, line)]
    assert bad[0][2]


def test_many_bad_lines_among_good_ones_are_all_found() -> None:
    lines = [b'{"i": %d}' % n if n % 7 else b'{"i": "%d"}' % n for n in range(5000)]
    rows, bad = _parse(JsonLines(Schema.of({"i": int})), b"\n".join(lines))
    assert rows["i"].to_list() == [n for n in range(5000) if n % 7]
    assert [raw for _, raw, _ in bad] == [line for n, line in enumerate(lines) if n % 7 == 0]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (" 5 ", "int64", 5),
        ("", "int64", None),
        ("+5", "int8", 5),
        ("1e3", "float64", 1000.0),
        ("inf", "float64", float("inf")),
        ("TRUE", "bool", True),
        ("0", "bool", False),
        ("2024-01-01", "timestamp", datetime(2024, 1, 1)),
        ("2024-01-01 10:00", "timestamp", datetime(2024, 1, 1, 10)),
        ("2024-01-01T10:00:00Z", "timestamp", datetime(2024, 1, 1, 10)),
        ("2024-01-01T10:00:00+02:00", "timestamp", datetime(2024, 1, 1, 8)),
        ("2024-01-01T10:00:00.123456789-0100", "timestamp", datetime(2024, 1, 1, 11, 0, 0, 123456)),
        ("10:00:00.5", "time", time(10, 0, 0, 500000)),
        ("1000", "duration", timedelta(milliseconds=1)),
        ("", "string", ""),
        ("ü", "binary", "ü".encode()),
    ],
)
def test_text_becomes_a_value_alone_and_beside_others(text: str, kind: str, value: object) -> None:
    for neighbours in ([], ["nonsense"], ["2024-01-01T00:00:00Z"], ["2024-01-01"], [None]):
        values, bad = convert(pl.Series("c", [text, *neighbours], dtype=pl.String), kind)
        assert values[0] == value
        assert bad is None or not bad[0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x", "int64"), ("1.0", "int64"), ("300", "int8"), ("-1", "uint8"), ("x", "float64"), ("yes", "bool")]
    + [(t, "timestamp") for t in ("x", "2024-13-01", "2024-02-30", "2024-01-01T25:00:00", "1700000000")]
    + [("2024-02-30", "date"), ("25:00:00", "time"), ("1s", "duration")],
)
def test_text_of_another_kind_is_marked_alone_and_beside_others(text: str, kind: str) -> None:
    for neighbours in ([], ["nonsense"], ["2024-01-01T00:00:00Z"], ["2024-01-01"], [None]):
        _, bad = convert(pl.Series("c", [text, *neighbours], dtype=pl.String), kind)
        assert bad is not None
        assert bad[0]


@pytest.mark.parametrize(
    "line", [b"1", b"1,2,3", b"x,y", b'1,"open', b"1,a\rb", b"1,\xff", b'"1,2', b",,", b"1.5,a"]
)
def test_csv_refuses_one_line_and_keeps_its_neighbours(line: bytes) -> None:
    rows, bad = _csv(b"7,a\n\n" + line + b'\n8,"b, c"\n', {"n": int, "s": str})
    assert rows.rows() == [(7, "a"), (8, "b, c")]
    assert [(place, raw) for place, raw, _ in bad] == [(5, line)]


def test_csv_takes_quotes_nulls_and_other_separators() -> None:
    assert _csv(b'1,"a ""b"""\r\n,\r\n', {"n": int, "s": str})[0].rows() == [(1, 'a "b"'), (None, "")]
    assert _csv(b"1\tx\n\t\n", {"n": int, "s": str}, separator="\t")[0].rows() == [(1, "x"), (None, "")]
    assert _csv(b"NA;NA\n", {"n": int, "s": str}, separator=";", nulls=("NA",))[0].rows() == [(None, None)]


@pytest.mark.parametrize(
    "options", [{"separator": "ab"}, {"quote": ""}, {"header": "no"}, {"multiline": "x"}]
)
def test_csv_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadArgument):
        Csv(**options)


def test_text_keeps_empty_lines_and_drops_line_ends() -> None:
    assert _parse(TextLines(), b"a\r\n\n b \nc")[0]["line"].to_list() == ["a", "", " b ", "c"]
    rows, bad = _parse(TextLines(), b"a\r\n\n\xff\nb\n")
    assert rows["line"].to_list() == ["a", "", "b"]
    assert bad == [(4, b"\xff", "invalid UTF-8 at byte 0 of the line")]
    assert _parse(TextLines(), b"")[0].height == 0
