"""Small files that expand: an epoch is bounded by what comes out, and any cut gives the same rows."""

from __future__ import annotations

import bz2
import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.connect import blocks, expansion, records
from penstock.connect.csv_options import Csv
from penstock.connect.file_planner import FilesPlanner
from penstock.connect.files import Files
from penstock.connect.records import RecordScan, Room, cut_records
from penstock.connect.source import BadRecord, Limit, Offset
from penstock.testing.sources import check_source, read_range

SCHEMA = {"n": int, "s": str}
MIB = 1 << 20
PROPERTY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds so small that short files reach them."""
    monkeypatch.setattr(FilesPlanner, "min_split_bytes", 1)
    monkeypatch.setattr(expansion, "SEGMENT_BYTES", 37)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 16)
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 24)
    monkeypatch.setattr(records, "_STEP_BYTES", 11)


def put(folder: Path, name: str, data: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return folder


def epochs(
    source: Files, state: Path, limit: Limit
) -> list[tuple[Offset, Offset, pl.DataFrame, list[BadRecord]]]:
    planner = source.planner(state)
    offset, found = planner.initial(), []
    while (end := planner.latest(offset, limit)) != offset:
        found.append((offset, end, *read_range(source, planner, offset, end, 2)))
        planner.commit(end)
        offset = end
        assert len(found) < 10_000
    return found


def test_eight_kilobytes_of_zstd_do_not_make_one_epoch_of_millions_of_rows(tmp_path: Path) -> None:
    rows = 4_000_000
    packed = zstd(b"0\n" * rows)
    assert len(packed) < 8 * 1024
    source = Files(put(tmp_path / "in", "bomb.zst", packed), format="text")
    sizes = [got.height for _, _, got, _ in epochs(source, tmp_path / "s", Limit(bytes=MIB))]
    assert max(sizes) <= MIB // 2
    assert sum(sizes) == rows


def test_a_line_without_end_is_one_dead_letter_and_takes_bounded_memory_and_bounded_epochs(
    tmp_path: Path,
) -> None:
    length = 200 * MIB
    packed = zstd(b"x" * length + b"\nlast\n")
    source = Files(put(tmp_path / "in", "bomb.zst", packed), format="text")
    planner = source.planner(tmp_path / "s")
    tracemalloc.start()
    offset, lines, bad = planner.initial(), list[str](), list[BadRecord]()
    while (end := planner.latest(offset, Limit(bytes=32 * MIB))) != offset:
        assert end["file"] == 1 or end["position"] - offset["position"] <= 32 * MIB
        for split in planner.splits(offset, end, 2):
            lines += [line for batch in source.read(split, bad.append) for line in batch.rows["line"]]
        planner.commit(end)
        laid_down = sum(path.stat().st_size for path in (tmp_path / "s").rglob("*.segment"))
        assert laid_down <= 32 * MIB
        offset = end
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert lines == ["last"]
    assert [(record.where, len(record.raw)) for record in bad] == [("bomb.zst:1", blocks.RAW_BYTES)]
    assert peak < 100 * MIB


def test_a_quote_that_never_closes_does_not_swallow_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 1000)
    body = b'0,"open\n' + b"".join(b"%d,line %d\n" % (n, n) for n in range(1, 500))
    csv = Csv(header="none", multiline="quoted")
    source = Files(put(tmp_path / "in", "a.csv", body), format="csv", schema=SCHEMA, csv=csv)
    found = epochs(source, tmp_path / "s", Limit(rows=50))
    numbers = [n for _, _, rows, _ in found for n in rows["n"]]
    assert [record.where for _, _, _, bad in found for record in bad] == ["a.csv:1"]
    assert numbers == list(range(numbers[0], 500))
    assert numbers[0] < 100


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.usefixtures("tiny")
def test_compressed_files_keep_to_the_limits_exactly(suffix: str, tmp_path: Path) -> None:
    for i in range(3):
        lines = b"".join(json.dumps({"n": n, "s": "ü"}).encode() + b"\n" for n in range(20 * i, 20 * i + 20))
        put(tmp_path / "in", f"{i}.jsonl{suffix}", PACKERS[suffix](lines + b"{}{}\n"))
    make = lambda: Files(tmp_path / "in", format="jsonl", schema=SCHEMA)  # noqa: E731
    assert check_source(make, tmp_path / "state")["n"].to_list() == list(range(60))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_csv_with_quoted_line_breaks_is_cut_between_its_records(suffix: str, tmp_path: Path) -> None:
    body = b"n,s\n" + b"".join(b'%d,"a\n%d"\n' % (n, n) for n in range(40)) + b'x,"f\ng"\n'
    put(tmp_path / "in", f"a.csv{suffix}", gzip.compress(body) if suffix else body)
    source = Files(tmp_path / "in", format="csv", schema=SCHEMA, csv=Csv(multiline="quoted"))
    assert check_source(lambda: source, tmp_path / "state")["n"].to_list() == list(range(40))


@pytest.mark.usefixtures("tiny")
def test_a_torn_file_is_reported_once_by_the_epoch_that_reaches_the_fault(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(200)), mtime=0)
    source = Files(put(tmp_path / "in", "a.gz", packed[: len(packed) // 2]), format="text")
    whole = epochs(source, tmp_path / "whole", Limit())
    cut = epochs(source, tmp_path / "cut", Limit(bytes=40))
    assert len(cut) > 3
    assert [record for _, _, _, bad in cut for record in bad] == whole[0][3]
    assert pl.concat([rows for _, _, rows, _ in cut]).equals(whole[0][2])


@pytest.mark.parametrize("damage", ["removed", "cut short", "another byte", "half a header"])
@pytest.mark.usefixtures("tiny")
def test_segments_that_are_gone_or_damaged_are_made_again(damage: str, tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(100)))
    source = Files(put(tmp_path / "in", "a.gz", packed), format="text")
    planner = source.planner(tmp_path / "s")
    first = planner.latest(planner.initial(), Limit(bytes=90))
    end = planner.latest(first, Limit(bytes=90))
    expected = read_range(source, planner, first, end, 3)
    for path in (tmp_path / "s").rglob("*.segment"):
        data = path.read_bytes()
        damaged = {"cut short": data[:-1], "another byte": data[:-1] + b"!", "half a header": data[:5]}
        path.write_bytes(damaged[damage]) if damage in damaged else path.unlink()
    assert read_range(source, planner, first, end, 3)[0].equals(expected[0])
    again = source.planner(tmp_path / "s")
    assert again.latest(first, Limit(bytes=90)) == end
    assert read_range(source, again, first, end, 3)[0].equals(expected[0])


@pytest.mark.usefixtures("tiny")
def test_a_file_that_is_read_once_is_decompressed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(2000)))
    source = Files(put(tmp_path / "in", "a.gz", packed), format="text")
    begun: list[str] = []
    segments = expansion.segments
    monkeypatch.setattr(
        expansion, "segments", lambda path, codec: (begun.append(path), segments(path, codec))[1]
    )
    epochs(source, tmp_path / "s", Limit(bytes=500))
    assert len(begun) == 1
    assert list((tmp_path / "s" / "expanded").glob("*")) == []


@pytest.mark.usefixtures("tiny")
def test_an_epoch_whose_limits_were_taken_away_reads_the_rest_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "_MOST_SEGMENTS", 2)
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(500)))
    source = Files(put(tmp_path / "in", "a.gz", packed), format="text")
    planner = source.planner(tmp_path / "s")
    first = planner.latest(planner.initial(), Limit(rows=10))
    rest = planner.latest(first, Limit())
    assert rest == {"file": 1, "position": 0}
    rows, bad = read_range(source, planner, first, rest, 4)
    assert (rows["line"].to_list(), bad) == ([str(n) for n in range(10, 500)], [])
    assert len(list((tmp_path / "s").rglob("*.segment"))) < 6, "the rest is not laid down as a whole"


@pytest.mark.usefixtures("tiny")
def test_an_offset_of_a_run_from_before_names_a_whole_file(tmp_path: Path) -> None:
    """Compressed files were taken whole, so such a run has no offset inside of one."""
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(200)))
    source = Files(put(tmp_path / "in", "a.gz", packed), format="text")
    planner = source.planner(tmp_path / "s")
    planner.latest(planner.initial(), Limit(bytes=50))
    rows, bad = read_range(source, planner, {"file": 0, "position": 0}, {"file": 1, "position": 0}, 4)
    assert (rows.height, bad) == (200, [])


TEXT = st.lists(
    st.sampled_from([b"a", b"bc", b"\n", b"\n", b'"', b"d" * 9, b"e" * 30, b'f\n"', b"\xff"]), max_size=60
).map(b"".join)


@settings(PROPERTY, max_examples=600)
@given(text=TEXT, quote=st.sampled_from([None, b'"']), sizes=st.lists(st.integers(1, 150), min_size=1))
@pytest.mark.usefixtures("tiny")
def test_ends_of_records_are_those_of_a_reader_of_single_bytes(
    text: bytes, quote: bytes | None, sizes: list[int]
) -> None:
    scan, found, place, i = RecordScan(5, quote), list[int](), 0, 0
    while place < len(text):
        found += scan.feed(text[place : place + sizes[i % len(sizes)]]).tolist()
        place += sizes[i % len(sizes)]
        i += 1
    assert found == [5 + end for end in ends_one_by_one(text, quote)]


def ends_one_by_one(text: bytes, quote: bytes | None) -> list[int]:
    ends, begin, is_open = list[int](), 0, False
    for i in range(len(text)):
        is_too_long = i - begin > records.MAX_RECORD_BYTES
        if quote is not None and text[i : i + 1] == quote:
            is_open = not is_open
        if text[i : i + 1] == b"\n" and (is_too_long or not is_open):
            ends.append(i + 1)
            begin, is_open = i + 1, False
    return ends


@PROPERTY
@given(
    text=TEXT,
    suffix=st.sampled_from(["", *PACKERS]),
    quoted=st.booleans(),
    limit=st.one_of(
        st.builds(Limit, rows=st.integers(1, 9)),
        st.builds(Limit, bytes=st.integers(1, 90)),
        st.builds(Limit, st.integers(1, 9), st.integers(1, 90)),
    ),
)
@pytest.mark.usefixtures("tiny")
def test_how_a_file_is_packed_and_cut_never_changes_what_is_read(
    text: bytes, suffix: str, quoted: bool, limit: Limit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not text:
        return
    folder = tmp_path_factory.mktemp("cuts")
    csv = Csv(header="none", multiline="quoted" if quoted else "never")
    options: dict[str, Any] = {"format": "csv", "schema": {"s": str, "t": str}, "csv": csv}
    plain = Files(put(folder / "plain", "a", text), **options)
    packed = PACKERS[suffix](text) if suffix else text
    cut = Files(put(folder / "in", f"a{suffix}", packed), **options)
    ((_, _, rows, bad),) = epochs(plain, folder / "whole", Limit())
    found = epochs(cut, folder / "cut", limit)
    assert pl.concat([some for _, _, some, _ in found]).equals(rows)
    reported = [record for _, _, _, some in found for record in some]
    assert [(r.position, r.raw, r.reason) for r in reported] == [(r.position, r.raw, r.reason) for r in bad]
    assert [r.where.partition(":")[2] for r in reported] == [r.where.partition(":")[2] for r in bad]
    if limit.rows is not None:
        assert max(some.height for _, _, some, _ in found) <= limit.rows


@PROPERTY
@given(text=TEXT, quote=st.sampled_from([None, b'"']), begin=st.integers(0, 30), most=st.integers(1, 60))
@pytest.mark.usefixtures("tiny")
def test_an_epoch_ends_at_the_end_of_a_record_or_in_one_that_is_too_long(
    text: bytes, quote: bytes | None, begin: int, most: int
) -> None:
    ends = [0, *ends_one_by_one(text, quote)]
    start = max(end for end in ends if end <= begin)
    span = cut_records(lambda at, count: text[at : at + count], start, Room(rows=None, bytes=most), quote)
    following = [end for end in ends if end > start]
    if span.inside:
        assert span.position - start > records.MAX_RECORD_BYTES
        assert not following or following[0] > span.position
    elif not span.is_end:
        within = [end for end in following if end <= start + most]
        assert span.position == (within[-1] if within else following[0])


def parquet_epochs(
    folder: Path, table: pa.Table, limit: Limit, **options: Any
) -> list[tuple[Offset, Offset, pl.DataFrame, list[BadRecord]]]:
    (folder / "in").mkdir()
    pq.write_table(table, folder / "in" / "a.parquet", **options)
    assert (folder / "in" / "a.parquet").stat().st_size < 100_000
    schema = {name: {"n": int, "s": str, "t": str}[name] for name in table.schema.names}
    return epochs(Files(folder / "in", format="parquet", schema=schema), folder / "s", limit)


def test_millions_of_equal_rows_of_parquet_span_epochs(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array(np.zeros(3_000_000, np.int64))})
    found = parquet_epochs(tmp_path, table, Limit(bytes=4 * MIB), row_group_size=1_000_000)
    sizes = [rows.height for _, _, rows, _ in found]
    assert sum(sizes) == 3_000_000
    assert max(sizes) * 8 <= 4 * MIB


@pytest.mark.parametrize("length", [3_000, 90_000])
def test_a_long_text_that_many_rows_of_parquet_share_spans_epochs(length: int, tmp_path: Path) -> None:
    """Once the dictionary holds little else, and once it also holds many short ones."""
    texts = ["x" * length, *(f"short {i}" for i in range(500))]
    numbers = np.where(np.arange(20_000) % 40 == 0, np.arange(20_000) // 40 % 501, 0)
    indices = pa.array(numbers if length > 10_000 else np.zeros(20_000, np.int64), pa.int32())
    table = pa.table({"s": pa.DictionaryArray.from_arrays(indices, pa.array(texts)), "n": range(20_000)})
    table = table.select(["s"])
    (tmp_path / "a").mkdir()
    found = parquet_epochs(tmp_path / "a", table, Limit(bytes=16 * MIB))
    assert sum(rows.height for _, _, rows, _ in found) == 20_000
    assert max(rows["s"].str.len_bytes().sum() for _, _, rows, _ in found) <= 17 * MIB


def test_batches_of_long_rows_are_given_out_by_their_bytes(tmp_path: Path) -> None:
    """Not when there are many of them: a split would be held in memory."""
    put(tmp_path / "in", "a", (b"x" * MIB + b"\n") * 200)
    source = Files(tmp_path / "in", format="text")
    planner = source.planner(tmp_path / "s")
    splits = planner.splits(planner.initial(), planner.latest(planner.initial(), Limit()), 1)
    sizes = [batch.rows.height for split in splits for batch in source.read(split, print)]
    assert sum(sizes) == 200
    assert max(sizes) <= 70
