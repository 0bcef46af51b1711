"""Files: order, limits, splits, and everything that can be wrong with a file."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connect import blocks, file_pieces, records
from penstock.connect.csv_options import Csv
from penstock.connect.file_planner import FilesPlanner
from penstock.connect.files import Files
from penstock.connect.source import END_OF_TIME, BadRecord, Limit
from penstock.errors import BadArgument, SourceUnavailable
from penstock.testing.sources import check_source, read_range

JSON = {"n": int, "s": str}
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FilesPlanner, "min_split_bytes", 1)


def _put(folder: Path, name: str, data: bytes, age: int = 0) -> Path:
    """A file that arrived in one step; a greater age is earlier."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    os.utime(path, ns=(0, 1_700_000_000_000_000_000 - age * 1_000_000_000))
    return path


def _all(source: Files, state: Path) -> tuple[pl.DataFrame, list[BadRecord]]:
    planner = source.planner(state)
    start = planner.initial()
    return read_range(source, planner, start, planner.latest(start, Limit()), 3)


def _lines(count: int, first: int = 0) -> bytes:
    return b"".join(
        json.dumps({"n": n, "s": f"text {n}"}).encode() + b"\n" for n in range(first, first + count)
    )


def _zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.long
def test_json_lines_conform(tmp_path: Path) -> None:
    _put(tmp_path / "in", "b.jsonl", _lines(40), age=2)
    _put(tmp_path / "in", "a.jsonl", _lines(20, 40) + b'{"n": "x"}\n\n{"n": 60, "s": null}', age=1)
    rows = check_source(lambda: Files(tmp_path / "in", format="jsonl", schema=JSON), tmp_path / "state")
    assert rows["n"].to_list() == list(range(61))


@pytest.mark.long
def test_csv_conforms(tmp_path: Path) -> None:
    body = "".join(f'{n},"t, {n}",x\r\n' for n in range(25))
    _put(tmp_path / "in", "a.csv", b"\xef\xbb\xbfn,s,other\r\n" + body.encode() + b"bad\r\n", age=1)
    _put(tmp_path / "in", "b.csv", b"s,n\nlast,25", age=0)
    rows = check_source(lambda: Files(tmp_path / "in", format="csv", schema=JSON), tmp_path / "state")
    assert rows["n"].to_list() == list(range(26))
    assert rows["s"][1] == "t, 1"


def test_text_conforms(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.log", "eins\r\n\nzwei ü\n".encode() + b"\xff\xfe\n" + b"drei", age=1)
    rows = check_source(lambda: Files(tmp_path / "in", format="text"), tmp_path / "state")
    assert rows["line"].to_list() == ["eins", "", "zwei ü", "drei"]


@pytest.mark.long
def test_parquet_conforms(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    frame = pl.DataFrame({"n": range(50), "s": [f"text {n}" for n in range(50)], "other": [None] * 50})
    frame.write_parquet(tmp_path / "in" / "a.parquet", row_group_size=15)
    _put(tmp_path / "in", "broken.parquet", b"PAR1 no")
    rows = check_source(lambda: Files(tmp_path / "in", format="parquet", schema=JSON), tmp_path / "state")
    assert rows.equals(frame.select("n", "s"))


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".zst", _zstd)],
    ids=["gz", "bz2", "zst"],
)
def test_compressed_files_conform(suffix: str, pack: Any, tmp_path: Path) -> None:
    for i in range(3):
        _put(tmp_path / "in", f"{i}.jsonl{suffix}", pack(_lines(20, 20 * i)), age=3 - i)
    make = lambda: Files(tmp_path / "in", format="jsonl", schema=JSON)  # noqa: E731
    rows = check_source(make, tmp_path / "state", limit_kind="units")
    assert rows["n"].to_list() == list(range(60))


def test_csv_with_line_breaks_between_quotes_conforms(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.csv", b'n,s\n1,"a\nb"\n2,"c""\n\nd"\n3,e\nx,"f\ng"\n')
    source = Files(tmp_path / "in", format="csv", schema=JSON, csv=Csv(multiline="quoted"))
    rows = check_source(lambda: source, tmp_path / "state", limit_kind="units")
    assert rows["s"].to_list() == ["a\nb", 'c"\n\nd', "e"]
    bad = _all(source, tmp_path / "again")[1]
    assert [(record.where, record.raw) for record in bad] == [("a.csv:8", b'x,"f\ng"')]


def test_files_are_taken_by_time_and_then_name(tmp_path: Path) -> None:
    _put(tmp_path / "in", "c", b"1", age=3)
    _put(tmp_path / "in", "b", b"2", age=2)
    _put(tmp_path / "in", "a", b"4", age=1)
    _put(tmp_path / "in", "A", b"3", age=1)
    assert _all(Files(tmp_path / "in", format="text"), tmp_path / "s")[0]["line"].to_list() == list("1234")


def test_files_that_are_being_written_are_left_alone(tmp_path: Path) -> None:
    for name in (".hidden", "_started", "a.tmp", "b.part"):
        _put(tmp_path / "in", name, b"no\n")
    _put(tmp_path / "in", "empty", b"")
    (tmp_path / "in" / "folder").mkdir()
    source = Files(tmp_path / "in", format="text")
    planner = source.planner(tmp_path / "s")
    start = planner.initial()
    assert planner.latest(start, Limit()) == start
    (tmp_path / "in" / "a.tmp").rename(tmp_path / "in" / "a")
    end = planner.latest(start, Limit())
    assert read_range(source, planner, start, end, 1)[0]["line"].to_list() == ["no"]
    assert planner.latest(end, Limit()) == end


def test_files_that_arrive_later_come_later_and_once(tmp_path: Path) -> None:
    source = Files(tmp_path / "in", format="text")
    _put(tmp_path / "in", "b", b"1\n")
    first = source.planner(tmp_path / "s").latest({"file": 0, "position": 0}, Limit())
    _put(tmp_path / "in", "a", b"2\n", age=1000)
    planner = source.planner(tmp_path / "s")
    second = planner.latest(first, Limit())
    assert read_range(source, planner, first, second, 1)[0]["line"].to_list() == ["2"]


def test_pattern_selects_files_in_folders(tmp_path: Path) -> None:
    for name in ("x", "y"):
        _put(tmp_path / name, "a.csv", b"1\n")
        _put(tmp_path / name, "a.txt", b"2\n")
    source = Files(tmp_path / "*" / "*.csv", format="text")
    assert _all(source, tmp_path / "s")[0]["line"].to_list() == ["1", "1"]
    assert _all(Files(tmp_path / "x" / "a.txt", format="text"), tmp_path / "t")[0]["line"].to_list() == ["2"]


def test_folder_that_is_missing_is_waited_for(tmp_path: Path) -> None:
    source = Files(tmp_path / "in", format="text")
    planner = source.planner(tmp_path / "s")
    assert planner.latest(planner.initial(), Limit()) == planner.initial()
    _put(tmp_path / "in", "a", b"1\n")
    assert planner.latest(planner.initial(), Limit()) == {"file": 1, "position": 0}


def test_folder_whose_parent_is_missing_is_an_error(tmp_path: Path) -> None:
    planner = Files(tmp_path / "no" / "in", format="text").planner(tmp_path / "s")
    with pytest.raises(SourceUnavailable):
        planner.latest(planner.initial(), Limit())


def test_folder_that_is_missing_is_an_error_if_nothing_may_come_later(tmp_path: Path) -> None:
    planner = Files(tmp_path / "in", format="text", ends="drained").planner(tmp_path / "s")
    with pytest.raises(SourceUnavailable, match=r"there is nothing at .*/in; create it, or correct the path"):
        planner.latest(planner.initial(), Limit())


def test_growth_of_a_taken_file_is_reported_once_and_not_read(tmp_path: Path) -> None:
    source = Files(tmp_path / "in", format="text")
    path = _put(tmp_path / "in", "a", b"1\n")
    planner = source.planner(tmp_path / "s")
    first = planner.latest(planner.initial(), Limit())
    with path.open("ab") as file:
        file.write(b"2\n")
    planner = source.planner(tmp_path / "s")
    second = planner.latest(first, Limit())
    rows, bad = read_range(source, planner, first, second, 1)
    assert rows.height == 0
    assert [(record.position, record.where) for record in bad] == [(1 << 40, "a")]
    assert "changed after it was taken" in bad[0].reason
    assert planner.latest(second, Limit()) == second
    again, none = read_range(source, planner, planner.initial(), first, 1)
    assert again["line"].to_list() == ["1"]
    assert none == []


def test_file_replaced_between_planning_and_reading_is_reported(tmp_path: Path) -> None:
    source = Files(tmp_path / "in", format="text")
    path = _put(tmp_path / "in", "a", b"1\n2\n")
    planner = source.planner(tmp_path / "s")
    end = planner.latest(planner.initial(), Limit())
    path.unlink()
    path.write_bytes(b"other\n")
    rows, bad = read_range(source, planner, planner.initial(), end, 1)
    assert (rows.height, len(bad)) == (0, 1)
    assert "replaced" in bad[0].reason
    path.unlink()
    with pytest.raises(SourceUnavailable) as caught:
        read_range(source, planner, planner.initial(), end, 1)
    assert caught.value.parameters["where"] == str(path)
    lenient = Files(tmp_path / "in", format="text", missing="dead-letter")
    rows, bad = read_range(lenient, planner, planner.initial(), end, 1)
    assert (rows.height, len(bad)) == (0, 1)
    assert "deleted before it was read; it had 4 bytes" in bad[0].reason


def test_a_copy_of_a_file_is_the_same_file(tmp_path: Path) -> None:
    """As on another machine, or after a touch: only its time is another one."""
    source = Files(tmp_path / "in", format="text")
    path = _put(tmp_path / "in", "a", b"1\n2\n3\n")
    planner = source.planner(tmp_path / "s")
    start = planner.initial()
    half, whole = planner.latest(start, Limit(rows=1)), planner.latest(start, Limit())
    os.utime(path, (1, 1))
    assert read_range(source, planner, half, whole, 1)[0]["line"].to_list() == ["2", "3"]
    restarted = source.planner(tmp_path / "s")
    for _ in range(2):
        assert restarted.latest(start, Limit()) == whole
    assert [rows["line"].to_list() for rows in read_range(source, restarted, start, whole, 1)[:1]] == [
        ["1", "2", "3"]
    ]
    path.write_bytes(b"4\n5\n6\n")
    assert source.planner(tmp_path / "s").latest(start, Limit()) != whole, "another content is told"


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
@pytest.mark.parametrize("limit", [Limit(), Limit(rows=2)])
def test_files_that_are_away_for_a_while_are_waited_for(tmp_path: Path, format: Any, limit: Limit) -> None:
    """As when a disk is not mounted: its folder is there and empty."""
    inbox, away = tmp_path / "in", tmp_path / "away"
    inbox.mkdir()
    for name in ("a", "b"):
        rows = pl.DataFrame({"n": range(5), "file": name})
        rows.write_parquet(inbox / name) if format == "parquet" else rows.write_ndjson(inbox / name)
    source = Files(inbox, format=format, schema={"n": int, "file": str})
    planner = source.planner(tmp_path / "s")
    first = planner.latest(planner.initial(), Limit(rows=2))
    planned = planner.latest(first, limit)
    inbox.rename(away)
    inbox.mkdir()
    restarted = source.planner(tmp_path / "s")
    with pytest.raises(SourceUnavailable):
        restarted.latest(first, limit)
    with pytest.raises(SourceUnavailable):
        read_range(source, restarted, first, planned, 2)
    inbox.rmdir()
    away.rename(inbox)
    offset, got = planner.initial(), []
    while (end := restarted.latest(offset, limit)) != offset:
        rows, bad = read_range(source, restarted, offset, end, 2)
        got += rows.rows()
        offset = end
        assert bad == []
    assert got == [(n, name) for name in ("a", "b") for n in range(5)]


def test_a_source_that_was_stored_before_it_had_a_field_has_its_default(tmp_path: Path) -> None:
    """Versions of a run are stored; a later Penstock goes on with them."""
    now = Files(tmp_path, format="text")
    then = Files.__new__(Files)
    then.__setstate__(now.__getstate__()[:-1])  # type: ignore[attr-defined]
    assert then == now
    assert then.missing == "wait"


def test_lost_index_is_an_error_and_not_a_second_reading(tmp_path: Path) -> None:
    planner = Files(tmp_path / "in", format="text").planner(tmp_path / "s")
    with pytest.raises(SourceUnavailable):
        planner.latest({"file": 3, "position": 0}, Limit())


def test_torn_line_of_the_index_is_dropped_and_written_again(tmp_path: Path) -> None:
    source = Files(tmp_path / "in", format="text")
    for i in range(3):
        _put(tmp_path / "in", f"{i}", b"%d\n" % i, age=3 - i)
    planner = source.planner(tmp_path / "s")
    planner.latest(planner.initial(), Limit())
    log = tmp_path / "s" / "files.jsonl"
    whole = log.read_bytes()
    for length in range(0, len(whole), 9):
        log.write_bytes(whole[:length])
        assert _all(source, tmp_path / "s")[0]["line"].to_list() == ["0", "1", "2"]
        assert log.read_bytes() == whole


def test_truncated_gzip_gives_everything_before_the_fault(tmp_path: Path) -> None:
    text = b"".join(b"line %d %s\n" % (n, os.urandom(8).hex().encode()) for n in range(5000))
    packed = gzip.compress(text)
    for i, length in enumerate((len(packed) // 2, len(packed) - 4, 15, 5)):
        _put(tmp_path / f"in{i}", "a.gz", packed[:length])
        rows, bad = _all(Files(tmp_path / f"in{i}", format="text"), tmp_path / f"s{i}")
        read = "".join(line + "\n" for line in rows["line"]).encode()
        assert text.startswith(read)
        assert len(bad) == 1
        assert text.startswith(read + bad[0].raw)
        assert bad[0].where == f"a.gz:{rows.height + 1}"
        assert len(read) > len(text) * 0.4 or i > 1


def test_file_that_is_not_gzip_at_all_is_one_bad_record(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.csv.gz", b"n,s\n1,2\n")
    rows, bad = _all(Files(tmp_path / "in", format="csv", schema=JSON), tmp_path / "s")
    assert (rows.height, len(bad)) == (0, 1)


def test_gzip_of_several_members_is_read_to_the_end(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.gz", gzip.compress(b"1\n2") + gzip.compress(b"3\n4\n"))
    assert _all(Files(tmp_path / "in", format="text"), tmp_path / "s")[0]["line"].to_list() == [
        "1",
        "23",
        "4",
    ]


def test_line_that_is_too_long_is_rejected_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 100)
    for before in range(0, 90, 7):
        for length in (99, 100, 101, 150, 1000):
            data = b"a" * before + b"\n" + b"x" * length + b"\nlast\n" + b"y" * length
            _put(tmp_path / f"in-{before}-{length}", "a", data)
            source = Files(tmp_path / f"in-{before}-{length}", format="text")
            rows, bad = _all(source, tmp_path / f"s-{before}-{length}")
            fits = length <= 100
            assert rows.height == (4 if fits else 2)
            assert [record.where for record in bad] == ([] if fits else ["a:2", "a:4"])


def test_header_without_the_columns_rejects_the_file_once(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a.csv", b"n,t\n" + b"1,2\n" * 50, age=1)
    _put(tmp_path / "in", "b.csv", b"n,s\n1,2\n")
    rows, bad = _all(Files(tmp_path / "in", format="csv", schema=JSON), tmp_path / "s")
    assert rows.height == 1
    assert [(record.where, record.raw) for record in bad] == [("a.csv:1", b"n,t\n")]


def test_parquet_that_lacks_a_column_or_has_another_type_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pl.DataFrame({"n": [1]}).write_parquet(tmp_path / "in" / "a.parquet")
    pl.DataFrame({"n": ["x"], "s": ["y"]}).write_parquet(tmp_path / "in" / "b.parquet")
    pl.DataFrame({"n": [5], "s": ["y"]}, schema_overrides={"n": pl.Int16}).write_parquet(
        tmp_path / "in" / "c.parquet"
    )
    rows, bad = _all(Files(tmp_path / "in", format="parquet", schema=JSON), tmp_path / "s")
    assert rows["n"].to_list() == [5]
    assert len(bad) == 2


def test_a_record_larger_than_the_limit_still_gets_through(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a", b"x" * 1000 + b"\ny\n")
    planner = Files(tmp_path / "in", format="text").planner(tmp_path / "s")
    assert planner.latest(planner.initial(), Limit(bytes=10)) == {"file": 0, "position": 1001}


def test_positions_begin_anew_only_where_an_epoch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are 2**23 of them for files; here there are four."""
    monkeypatch.setattr(file_pieces, "FILE_BITS", 2)
    for i in range(11):
        _put(tmp_path / "in", f"{i:02d}", b"%d\n" % i)
    source = Files(tmp_path / "in", format="text", ends="drained")
    planner = source.planner(tmp_path / "s")
    offset, ends, lines = planner.initial(), list[int](), list[str]()
    while (end := planner.latest(offset, Limit())) != offset:
        lines += read_range(source, planner, offset, end, 3)[0]["line"].to_list()
        ends.append(end["file"])
        offset = end
    assert ends == [4, 8, 11]
    assert lines == [str(i) for i in range(11)]
    assert planner.finished(offset)


def test_a_file_of_any_number_has_a_position() -> None:
    for number in (0, (1 << 23) - 1, 1 << 23, 10**9):
        piece = file_pieces.Piece(number, "a", 0, 1, 1, 0, 0, "taken")
        assert 0 <= piece.place(0) < piece.place(10**12) < 2**63


def test_many_small_files_become_one_batch(tmp_path: Path) -> None:
    for i in range(20):
        _put(tmp_path / "in", f"{i:02d}", b"%d\n" % i)
    source = Files(tmp_path / "in", format="text")
    planner = source.planner(tmp_path / "s")
    splits = planner.splits(planner.initial(), planner.latest(planner.initial(), Limit()), 1)
    batches = [batch for split in splits for batch in source.read(split, print)]
    assert [(batch.position, batch.rows.height) for batch in batches] == [(0, 20)]


def test_folder_that_is_gone_stops_the_stream_instead_of_losing_a_file(tmp_path: Path) -> None:
    path = _put(tmp_path / "in", "a", b"1\n")
    source = Files(tmp_path / "in", format="text")
    planner = source.planner(tmp_path / "s")
    end = planner.latest(planner.initial(), Limit())
    path.unlink()
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    with pytest.raises(SourceUnavailable):
        read_range(source, planner, planner.initial(), end, 1)


def test_drained_source_finishes_and_closes_time(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a", b"1\n")
    endless = Files(tmp_path / "in", format="csv", schema={"t": "timestamp"}, time="t", lateness="1s")
    drained = Files(tmp_path / "in", format="csv", schema={"t": "timestamp"}, time="t", ends="drained")
    end = {"file": 1, "position": 0}
    assert not endless.planner(tmp_path / "s").finished(end)
    assert endless.planner(tmp_path / "s").punctuation(end, 5_000_000) == 4_000_000
    planner = drained.planner(tmp_path / "t")
    assert not planner.finished(planner.initial())
    assert planner.finished(planner.latest(planner.initial(), Limit()))
    assert planner.punctuation(end, 5_000_000) == END_OF_TIME


def test_backlog_is_what_has_not_been_taken(tmp_path: Path) -> None:
    _put(tmp_path / "in", "a", b"1\n2\n")
    planner = Files(tmp_path / "in", format="text").planner(tmp_path / "s")
    assert planner.backlog(planner.initial()).bytes == 4
    assert planner.backlog(planner.latest(planner.initial(), Limit(rows=1))).bytes == 2


@pytest.mark.parametrize(
    "options",
    [
        {"format": "xml"},
        {"format": "csv"},
        {"format": "text", "schema": {"a": int}},
        {"format": "csv", "schema": {"a": "list<int64>"}},
        {"format": "jsonl", "schema": {"a": int}, "time": "b"},
        {"format": "text", "compression": "rar"},
        {"format": "text", "ends": "now"},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadArgument):
        Files("in", **options)


_RECORDS = st.lists(
    st.one_of(
        st.integers(-5, 10**6).map(lambda n: json.dumps({"n": n, "s": "ok ü"}).encode()),
        st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")),
        st.sampled_from(
            [
                b"",
                b'{"n": "x"}',
                b"{}",
                b'{"n": 1}{"n": 2}',
                b'{"s": "\\ud800"}',
                b'{"n": 1,',
                b"[1]",
                b'{"n": 1.5}',
            ]
        ),
    ),
    max_size=60,
)


@pytest.mark.long
@QUICK
@given(records=_RECORDS, cut=st.integers(1, 9), parallelism=st.integers(1, 6))
def test_how_json_is_cut_never_changes_what_is_read(
    records: list[bytes], cut: int, parallelism: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _compare_cuts(b"\n".join(records), "jsonl", cut, parallelism, tmp_path_factory.mktemp("cuts"))


@pytest.mark.long
@QUICK
@given(
    text=st.lists(
        st.sampled_from([b"1", b",", b'"', b"\n", b"x", b"\r", b" ", b"\r\n", b"2,y\n", b"\xff"]), max_size=80
    ),
    cut=st.integers(1, 9),
    parallelism=st.integers(1, 6),
)
def test_how_csv_is_cut_never_changes_what_is_read(
    text: list[bytes], cut: int, parallelism: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _compare_cuts(b"n,s\n" + b"".join(text), "csv", cut, parallelism, tmp_path_factory.mktemp("cuts"))


def _compare_cuts(data: bytes, format: Any, cut: int, parallelism: int, folder: Path) -> None:
    """All at once, and cut into epochs of a few rows and into splits: the same rows and bad records."""
    if not data:
        return
    _put(folder / "in", "a", data)
    source = Files(folder / "in", format=format, schema=JSON)
    rows, bad = _all(source, folder / "whole")
    planner = source.planner(folder / "cut")
    offset, frames, found = planner.initial(), [rows.clear()], list[BadRecord]()
    while (end := planner.latest(offset, Limit(rows=cut))) != offset:
        some, faults = read_range(source, planner, offset, end, parallelism)
        frames.append(some)
        found += faults
        offset = end
    assert pl.concat(frames).equals(rows)
    assert found == bad
