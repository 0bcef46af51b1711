"""Access logs: every line becomes a row or a reason, as a plain regular expression says it must."""

from __future__ import annotations

import datetime as dt
import gzip
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.net.answers import DATA, MISSING

from penstock.connect.files import ACCESS_LOG, Files
from penstock.connect.parsing_access_log import AccessLogLines
from penstock.connect.source import Limit
from penstock.errors import BadArgument
from penstock.frames.hashing import stable_hash
from penstock.testing.sources import check_source, read_range
from penstock.topology.schema import Schema

COMBINED = (
    '10.0.0.1 - ann [05/Jan/2026:08:15:30 +0100] "GET /shop?item=7 HTTP/1.1" 200 512 '
    '"http://a.example/" "Mozilla/5.0 (X11)" "id=9; theme=dark"'
)
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)


def _parse(text: bytes) -> tuple[pl.DataFrame, list[tuple[int, bytes, str]]]:
    bad: list[tuple[int, bytes, str]] = []
    return AccessLogLines(ACCESS_LOG).block(text, lambda *fault: bad.append(fault)), bad


def _row(line: str) -> dict[str, Any]:
    rows, bad = _parse(line.encode())
    assert not bad
    return rows.row(0, named=True)


def test_every_field_of_the_combined_format_with_a_cookie_is_found() -> None:
    assert _row(COMBINED) == {
        "time": dt.datetime(2026, 1, 5, 7, 15, 30),
        "status": 200,
        "bytes": 512,
        "host": "10.0.0.1",
        "user": "ann",
        "method": "GET",
        "path": "/shop",
        "query": "item=7",
        "protocol": "HTTP/1.1",
        "referrer": "http://a.example/",
        "agent": "Mozilla/5.0 (X11)",
        "cookie": "id=9; theme=dark",
    }


def test_a_visitor_is_the_stable_hash_of_host_and_agent() -> None:
    lines = "\n".join([COMBINED, COMBINED.replace("10.0.0.1", "h"), COMBINED.partition(' "http')[0]]).encode()
    columns = {"visitor": "uint64", "host": "string", "agent": "string"}
    rows = AccessLogLines(Schema.of(columns)).block(lines, pytest.fail)
    assert rows["visitor"].to_list() == stable_hash([rows["host"], rows["agent"]]).tolist()
    assert rows["visitor"].n_unique() == 3


def test_the_common_format_has_no_quoted_fields_at_the_end_and_dashes_are_nulls() -> None:
    row = _row('host - - [29/Feb/2024:23:59:59 -0500] "GET / HTTP/1.0" 304 -')
    assert row["time"] == dt.datetime(2024, 3, 1, 4, 59, 59)
    assert [row[name] for name in ("user", "bytes", "query", "referrer", "agent", "cookie")] == [None] * 6


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        ('h [29:23:53:25] "GET / HTTP/1.0" 404', "time", dt.datetime(1970, 1, 29, 23, 53, 25)),
        ('h - - [01/Jan/2026:00:00:00 +0000] "GET /a b HTTP/1.1" 200 1', "path", "/a b"),
        ('h - - [01/Jan/2026:00:00:00 +0000] "GET /a" 200 1', "protocol", None),
        ('h - - [01/Jan/2026:00:00:00 +0000] "GET /a" b HTTP/1.1" 200 1', "path", '/a" b'),
        (r'h - - [01/Jan/2026:00:00:00 +0000] "GET /a\" 200 HTTP/1.1" 200 1', "path", r"/a\" 200"),
        ('h - - [01/Jan/2026:00:00:00 +0000] "-" 408 -', "method", None),
        ('h - j s [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1', "user", "j s"),
        ('h - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "a" 0.031 more', "agent", "a"),
        ('h - - [01/Jan/2026:00:00:00 +0000] "GET /\u00fc HTTP/1.1" 200 1\r', "path", "/\u00fc"),
    ],
)
def test_what_is_near_the_formats_is_read_too(line: str, column: str, expected: object) -> None:
    assert _row(line)[column] == expected


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b'h - - [32/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1',
        b'h - - [30/Feb/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1',
        b'h - - [01/Jan/2026:24:00:00 +0000] "GET / HTTP/1.1" 200 1',
        b'h - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1 200 1',
        b'h - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 20 1',
        b'h - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1x',
        b'h - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "half',
        b'h - - [01/Jan/2026:00:00:00 +0000] "GET /\xff HTTP/1.1" 200 1',
        b"h - - [01/Jan/2026:00:00:00 +00",
    ],
)
def test_a_malformed_line_is_rejected_with_a_reason_and_its_neighbours_stay(line: bytes) -> None:
    good = COMBINED.encode()
    rows, bad = _parse(good + b"\n\n" + line + b"\n" + good)
    assert rows.height == 2
    assert [(place, raw) for place, raw, _ in bad] == [(len(good) + 2, line)]
    assert bad[0][2]


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*COMBINED.encode(), 10, 92, 255]), max_size=300).map(bytes))
def test_no_bytes_make_it_fail_and_every_line_is_accounted_for(data: bytes) -> None:
    rows, bad = _parse(data)
    assert rows.height + len(bad) == sum(line.removesuffix(b"\r") != b"" for line in data.split(b"\n"))


_REGEX = re.compile(
    r'^(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<method>\S+) '
    r'(?P<path>[^ ?]*)(?:\?(?P<query>\S*))? (?P<protocol>HTTP/\S+)" '
    r'(?P<status>\d{3}) (?P<bytes>\d+|-) "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)"$'
)


@pytest.mark.long
@needs_data
def test_real_logs_give_what_a_regular_expression_gives() -> None:
    data = (DATA / "weblogs/elastic/apache_logs").read_bytes()
    rows, bad = _parse(data)
    expected = [found.groupdict() for line in data.decode().splitlines() if (found := _REGEX.match(line))]
    assert (rows.height, len(expected), len(bad)) == (9999, 9999, 1)
    for name in ("host", "user", "method", "path", "query", "protocol", "referrer", "agent"):
        assert rows[name].to_list() == [None if row[name] == "-" else row[name] for row in expected], name
    for name in ("status", "bytes"):
        assert rows[name].to_list() == [None if row[name] == "-" else int(row[name]) for row in expected]
    moments = [dt.datetime.strptime(row["time"], "%d/%b/%Y:%H:%M:%S %z") for row in expected]
    assert rows["time"].to_list() == [moment.astimezone(dt.UTC).replace(tzinfo=None) for moment in moments]


@pytest.mark.long
def test_a_log_keeps_to_the_contract_of_sources_and_bad_lines_have_a_number(tmp_path: Path) -> None:
    text = "".join(f"{COMBINED}\n" if n % 7 else "nonsense\n" for n in range(100)).encode()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.log").write_bytes(text)
    check_source(lambda: Files(tmp_path / "in", format="access-log", time="time"), tmp_path)
    (tmp_path / "in/b.log.gz").write_bytes(gzip.compress(text))
    source = Files(tmp_path / "in/*.gz", format="access-log", schema={"host": str, "status": "int32"})
    planner = source.planner(tmp_path / "gz")
    rows, bad = read_range(source, planner, planner.initial(), planner.latest(planner.initial(), Limit()), 1)
    assert (rows.columns, rows.height) == (["host", "status"], 85)
    assert [record.where for record in bad][:2] == ["b.log.gz:1", "b.log.gz:8"]


def test_columns_that_a_log_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument) as caught:
        Files(tmp_path, format="access-log", schema={"hosts": str})
    assert caught.value.parameters["what"] == "schema"
