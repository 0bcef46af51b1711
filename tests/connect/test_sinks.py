"""Every sink of ours runs through the conformance suite, and through the accidents of its own kind."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable

from penstock.connect import console, delta
from penstock.connect.collect import Collect
from penstock.connect.console import Console
from penstock.connect.delta import Delta
from penstock.connect.json_lines import JsonLines
from penstock.connect.parquet import ParquetFiles
from penstock.connect.sink import Sink, SinkContext, file_name
from penstock.control.restarting import kind_of
from penstock.control.run_directory import RunDirectory
from penstock.control.run_reader import RunReader
from penstock.errors import BadArgument, SinkRefused, SinkUnavailable
from penstock.frames.types import to_polars
from penstock.testing.sinks import SCHEMA, Harness, check_sink, rows
from penstock.topology.schema import Schema

pytestmark = pytest.mark.long


def _shown(_: Sink, folder: Path) -> pl.DataFrame:
    log = folder / "run" / "console.log"
    found = re.findall(r"│ (k\d+)\s+┆ (\d+)\s+│", log.read_text()) if log.exists() else []
    return pl.DataFrame([(k, int(n)) for k, n in found], schema=to_polars(SCHEMA), orient="row")


def _table(sink: Sink, folder: Path) -> pl.DataFrame:
    return pl.read_delta(str(folder / "table"))


def _lines(_: Sink, folder: Path) -> pl.DataFrame:
    found = [pl.read_ndjson(path) for path in sorted((folder / "lines").glob("*.jsonl"))]
    return pl.concat(found) if found else pl.DataFrame(schema=to_polars(SCHEMA))


KINDS: dict[str, tuple[Callable[[Path], Sink], Callable[[Any, Path], pl.DataFrame]]] = {
    "delta": (lambda folder: Delta(folder / "table"), _table),
    "delta-partitioned": (lambda folder: Delta(folder / "table", partition_by=["key"]), _table),
    "delta-compacted": (lambda folder: Delta(folder / "table", compact_every=1), _table),
    "parquet": (lambda folder: ParquetFiles(folder / "files"), lambda sink, folder: sink.read()),
    "json-lines": (lambda folder: JsonLines(folder / "lines"), _lines),
    "collect": (lambda folder: Collect(), lambda sink, folder: Collect.read(folder / "run", "out")),
    "console": (lambda folder: Console(), _shown),
}


@pytest.mark.parametrize("kind", KINDS)
def test_sink_conforms(kind: str, tmp_path: Path) -> None:
    check_sink(*KINDS[kind], tmp_path)


def _harness(kind: str, tmp_path: Path) -> Harness:
    make, read = KINDS[kind]
    return Harness(make(tmp_path), read, tmp_path)


def _context(tmp_path: Path, epoch: int, schema: Schema) -> SinkContext:
    return SinkContext("out", epoch, "run", "0", tmp_path / "run", schema)


def _commit(sink: Sink, context: SinkContext, *frames: pl.DataFrame) -> None:
    messages = []
    for frame in frames:
        writer = sink.open(context)
        writer.write(frame)
        messages.append(writer.close())
    sink.commit(context, messages)


@pytest.mark.parametrize("kind", ["delta", "parquet", "json-lines", "collect"])
def test_two_commits_of_one_epoch_that_race_show_it_once(kind: str, tmp_path: Path) -> None:
    harness = _harness(kind, tmp_path)
    harness.epoch(0, [rows(0, 1)])
    for epoch in range(1, 6):
        contexts = [harness.context(epoch, attempt=str(i)) for i in range(2)]
        messages = [harness.write(context, [[rows(epoch, 1)]]) for context in contexts]
        with ThreadPoolExecutor(2) as pool:
            for outcome in [
                pool.submit(harness.sink.commit, *pair) for pair in zip(contexts, messages, strict=True)
            ]:
                if kind == "delta":
                    outcome.result()
                else:
                    outcome.exception()  # the loser may find its files swept away; the epoch is there
        harness.sink.commit(contexts[0], messages[0])
    assert harness.seen() == sorted((f"k{n}", n) for n in range(6))


@pytest.mark.parametrize("kind", ["delta", "parquet", "json-lines", "collect"])
def test_an_epoch_behind_the_newest_one_changes_nothing_when_it_is_committed_again(
    kind: str, tmp_path: Path
) -> None:
    """A runner that was replaced wakes up with an epoch that others have gone beyond."""
    harness = _harness(kind, tmp_path)
    for epoch in range(3):
        harness.epoch(epoch, [rows(epoch, 1)])
    late = harness.context(1, attempt="late")
    harness.sink.commit(late, harness.write(late, [[rows(50, 1)]]))
    assert harness.seen() == sorted((f"k{n}", n) for n in range(3))


def test_two_sinks_and_runs_share_a_delta_table(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table")
    for run in ("a", "b"):
        for name in ("x", "y"):
            _commit(sink, SinkContext(name, 0, run, "0", tmp_path, SCHEMA), rows(0, 1))
    assert pl.read_delta(sink.path).height == 4


def test_delta_keeps_every_type(tmp_path: Path) -> None:
    schema = Schema.of(
        {
            "a": str,
            "b": bool,
            "c": "int8",
            "d": float,
            "e": bytes,
            "f": date,
            "g": datetime,
            "h": "list<int64>",
        }
        | {"i": "struct<x:int64,y:list<string>>", "j": "float32"}
    )
    row = [
        "ü",
        True,
        -128,
        float("inf"),
        b"\0\xff",
        date(1969, 1, 1),
        datetime(2024, 1, 1, 0, 0, 0, 1),
        [1, None],
    ]
    frame = pl.DataFrame(
        [[*row, {"x": 1, "y": ["z"]}, 1.5], [None] * 10], schema=to_polars(schema), orient="row"
    )
    sink = Delta(tmp_path / "table")
    _commit(sink, _context(tmp_path, 0, schema), frame)
    assert pl.read_delta(sink.path).equals(frame)
    assert pl.DataFrame(pl.from_arrow(DeltaTable(sink.path).to_pyarrow_table())).equals(frame)


def test_delta_widens_what_it_cannot_hold(tmp_path: Path) -> None:
    schema = Schema.of({"a": "uint8", "b": "uint64", "c": time, "d": timedelta})
    frame = pl.DataFrame(
        [[255, 2**64 - 1, time(0, 0, 1), timedelta(seconds=1)]], schema=to_polars(schema), orient="row"
    )
    sink = Delta(tmp_path / "table")
    _commit(sink, _context(tmp_path, 0, schema), frame)
    assert [int(value) for value in pl.read_delta(sink.path).row(0)] == [255, 2**64 - 1, 10**9, 10**6]


def test_delta_partition_values_survive_any_text(tmp_path: Path) -> None:
    schema = Schema.of({"key": str, "day": date, "n": int})
    texts = ["a b", "a/b", "ü%20=", "x", None, "a:b?#&", "..", "__x"]
    frame = pl.DataFrame(
        {"key": texts, "day": [date(2024, 1, 1)] * 8, "n": range(8)}, schema=to_polars(schema)
    )
    sink = Delta(tmp_path / "table", partition_by=["key", "day"])
    _commit(sink, _context(tmp_path, 0, schema), frame)
    assert pl.read_delta(sink.path).sort("n").equals(frame)
    assert pl.scan_delta(sink.path).filter(pl.col("key") == "a/b").collect()["n"].to_list() == [1]


def test_delta_statistics_let_readers_skip_but_never_lose(tmp_path: Path) -> None:
    schema = Schema.of({"at": datetime, "n": int})
    moment = datetime(2024, 1, 1, 0, 0, 0, 123456)
    sink = Delta(tmp_path / "table")
    for epoch in range(3):
        frame = pl.DataFrame(
            {"at": [moment + timedelta(days=epoch), None], "n": [epoch, None]}, schema=to_polars(schema)
        )
        _commit(sink, _context(tmp_path, epoch, schema), frame)
    found = pl.scan_delta(sink.path).filter(pl.col("at") == moment + timedelta(days=2)).collect()
    assert found["n"].to_list() == [2]


def test_delta_table_grows_with_the_stream(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table")
    _commit(sink, _context(tmp_path, 0, SCHEMA), rows(0, 1))
    wider = Schema.of({"key": str, "count": int, "at": datetime})
    _commit(sink, _context(tmp_path, 1, wider), rows(1, 1).with_columns(at=datetime(2024, 1, 1)))
    _commit(sink, _context(tmp_path, 2, SCHEMA), rows(2, 1))
    found = pl.read_delta(sink.path).sort("count")
    assert found["at"].to_list() == [None, datetime(2024, 1, 1), None]


def test_delta_refuses_a_column_of_another_type(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table")
    _commit(sink, _context(tmp_path, 0, SCHEMA), rows(0, 1))
    with pytest.raises(SinkRefused) as caught:
        _commit(sink, _context(tmp_path, 1, Schema.of({"key": int})), pl.DataFrame({"key": [1]}))
    assert caught.value.parameters["sink"] == "out"
    assert caught.value.parameters["what"] == "column 'key' is string in the table and long now"
    assert pl.read_delta(sink.path).height == 1
    assert kind_of(caught.value) == "final", "no waiting mends it"


def test_delta_refuses_a_table_with_other_partitions_and_waits_for_one_that_is_away(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table")
    _commit(sink, _context(tmp_path, 0, SCHEMA), rows(0, 1))
    with pytest.raises(SinkRefused, match="partitioned by"):
        _commit(Delta(tmp_path / "table", partition_by=["key"]), _context(tmp_path, 1, SCHEMA), rows(1, 1))
    (tmp_path / "a-file").write_bytes(b"")
    with pytest.raises((SinkUnavailable, OSError)) as caught:
        Delta(tmp_path / "a-file" / "table").commit(_context(tmp_path, 0, SCHEMA), [])
    assert not isinstance(caught.value, SinkRefused)


def test_delta_is_compacted_whichever_epochs_have_written(tmp_path: Path) -> None:
    """Only every tenth epoch has rows, as with dead letters: never the one whose number is due."""
    sink = Delta(tmp_path / "table", compact_every=5)
    for epoch in range(0, 400, 10):
        _commit(sink, _context(tmp_path, epoch, SCHEMA), rows(epoch, 1))
    assert len(DeltaTable(sink.path).file_uris()) <= 5
    assert pl.read_delta(sink.path).height == 40


def test_delta_merges_what_several_tasks_and_runs_have_written(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table", compact_every=8)
    for run in ("one", "two", "three"):
        for epoch in range(3):
            frames = [rows(epoch * 3 + i, 1) for i in range(3)]
            _commit(sink, SinkContext("out", epoch, run, "0", tmp_path / "run", SCHEMA), *frames)
            assert len(DeltaTable(sink.path).file_uris()) <= 8 + 3
    assert pl.read_delta(sink.path).height == 27


def test_delta_with_many_partitions_is_not_compacted_by_every_epoch(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table", partition_by=["key"], compact_every=5)
    for epoch in range(8):
        _commit(sink, _context(tmp_path, epoch, SCHEMA), rows(0, 9))
    merges = [entry for entry in DeltaTable(sink.path).history() if entry["operation"] == "OPTIMIZE"]
    assert 1 <= len(merges) <= 8
    assert len(DeltaTable(sink.path).file_uris()) <= 9 + 2 * 9
    _commit(sink, _context(tmp_path, 9, SCHEMA), *[rows(100 + i, 1) for i in range(20)])
    assert len(merges) == len(
        [entry for entry in DeltaTable(sink.path).history() if entry["operation"] == "OPTIMIZE"]
    ), "files of different partitions cannot be merged"


def test_delta_does_not_merge_large_files_again_with_every_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta, "_TIERS_BYTES", (20_000, 200_000, 2_000_000))
    sink, written = Delta(tmp_path / "table", compact_every=8), 0
    for epoch in range(200):
        noise = [os.urandom(250).hex() for _ in range(20)]
        _commit(sink, _context(tmp_path, epoch, SCHEMA), rows(epoch, 20).with_columns(key=pl.Series(noise)))
    for operation in DeltaTable(sink.path).history():
        if operation["operation"] == "OPTIMIZE":
            written += json.loads(operation["operationMetrics"]["filesAdded"])["totalSize"]
    size = sum(
        Path(path.removeprefix("file://")).stat().st_size for path in DeltaTable(sink.path).file_uris()
    )
    assert len(DeltaTable(sink.path).file_uris()) <= 3 * 8 + 2
    assert written < 7 * size


def test_delta_keeps_the_number_of_files_bounded(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table", compact_every=5)
    for epoch in range(20):
        _commit(sink, _context(tmp_path, epoch, SCHEMA), rows(epoch, 1))
    assert len(DeltaTable(sink.path).file_uris()) <= 5
    assert pl.read_delta(sink.path)["count"].sort().to_list() == list(range(20))


def test_delta_removes_the_files_of_an_aborted_writer(tmp_path: Path) -> None:
    sink = Delta(tmp_path / "table")
    writer = sink.open(_context(tmp_path, 0, SCHEMA))
    writer.write(rows(0, 1))
    writer.close()
    writer.abort()
    assert list(Path(sink.path).rglob("*.parquet")) == []


def test_delta_refuses_what_it_cannot_do() -> None:
    with pytest.raises(BadArgument):
        Delta("s3://bucket/table")
    with pytest.raises(BadArgument):
        Delta("table", compact_every=-1)


def test_delta_refuses_an_unknown_partition_column(tmp_path: Path) -> None:
    with pytest.raises(BadArgument):
        Delta(tmp_path / "table", partition_by=["nothing"]).open(_context(tmp_path, 0, SCHEMA))


_CHANGES = frozenset({"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"})


def _dies_at(number: int, commit: Callable[[], None]) -> bool:
    """Run a commit in a process that is killed before its n-th change of the file system; was it?"""
    child = os.fork()
    if not child:
        left = itertools.count(number, -1)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            writes = event == "open" and isinstance(arguments[1], str) and arguments[1] != "r"
            if (writes or event in _CHANGES) and not next(left):
                os._exit(1)

        sys.addaudithook(hook)
        commit()
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.parametrize("kind", ["parquet", "json-lines"])
@pytest.mark.parametrize("earlier_epochs", [0, 1])
def test_a_commit_that_died_at_any_moment_is_finished_by_the_next(
    kind: str, earlier_epochs: int, tmp_path: Path
) -> None:
    for number in range(100):
        harness = _harness(kind, tmp_path / str(number))
        for epoch in range(earlier_epochs):
            harness.epoch(epoch, [rows(epoch, 1)])
        context = harness.context(earlier_epochs)
        messages = harness.write(context, [[rows(5, 1)], [rows(6, 1)]])
        has_died = _dies_at(number, lambda: harness.sink.commit(context, messages))  # noqa: B023
        harness.epoch(earlier_epochs, [rows(5, 2)], attempt="1")
        assert [count for _, count in harness.seen()] == [*range(earlier_epochs), 5, 6]
        left = [path.name for path in harness.folder.rglob("*") if path.is_file()]
        assert len([name for name in left if name.endswith((".parquet", ".jsonl"))]) <= earlier_epochs + 2
        if kind == "parquet":
            assert (
                pl.read_parquet(tmp_path / str(number) / "files" / "*.parquet").height == earlier_epochs + 2
            )
        if not has_died:
            break
    assert 5 < number < 99


def test_what_an_earlier_release_left_of_an_epoch_at_the_top_is_cleared_by_the_next_commit(
    tmp_path: Path,
) -> None:
    """Releases before 0.9 moved files to the top without writing down which."""
    harness = _harness("parquet", tmp_path)
    harness.epoch(0, [rows(0, 1)])
    folder = tmp_path / "files"
    shutil.rmtree(folder / "_intents")
    name = next(folder.glob("*.parquet")).name.replace("-000000000000-", "-000000000001-")
    shutil.copy(next(folder.glob("*.parquet")), folder / name)
    shutil.copy(next(folder.glob("*.parquet")), folder / "_pending" / name.replace(".parquet", "0.parquet"))
    harness.epoch(1, [rows(1, 1)])
    assert harness.seen() == [("k0", 0), ("k1", 1)]
    assert pl.read_parquet(folder / "*.parquet").height == 2
    assert list((folder / "_pending").rglob("*.parquet")) == []


@pytest.mark.parametrize("kind", ["parquet", "json-lines"])
def test_a_commit_looks_at_no_more_files_the_more_there_are(kind: str, tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from tests.connect.test_sinks import _harness, rows\n"
        "harness, seen, busy = _harness(sys.argv[1], Path(sys.argv[2])), [], []\n"
        "def hook(event, arguments):\n"
        "    if event in ('os.scandir', 'os.listdir') and not busy:\n"
        "        busy.append(1); seen.append(len(os.listdir(arguments[0]))); busy.clear()\n"
        "for epoch in range(300): harness.epoch(epoch, [rows(epoch, 1)])\n"
        "sys.addaudithook(hook)\n"
        "harness.epoch(300, [rows(300, 1)])\n"
        "print(sum(seen))\n"
    )
    command = [sys.executable, "-c", script, kind, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20


def test_console_finishes_a_block_that_was_cut_off(tmp_path: Path) -> None:
    harness = _harness("console", tmp_path)
    harness.epoch(0, [rows(0, 1)])
    log = tmp_path / "run" / "console.log"
    before = log.read_bytes()
    harness.epoch(1, [rows(1, 2)])
    whole = log.read_bytes()
    for length in range(len(before), len(whole), 5):
        log.write_bytes(whole[:length])
        harness.epoch(1, [rows(1, 2)], attempt="1")
        assert log.read_bytes() == whole


def test_console_shows_the_first_rows_and_counts_all(tmp_path: Path) -> None:
    harness = Harness(Console(limit=3), _shown, tmp_path)
    harness.epoch(0, [rows(0, 2)], [rows(2, 5)])
    assert harness.seen() == [("k0", 0), ("k1", 1), ("k2", 2)]
    assert "7 rows (first 3 shown)" in (tmp_path / "run" / "console.log").read_text()


@pytest.mark.parametrize("most", [500, 700, 900, 1100, 1300])  # also between two sinks of an epoch
def test_a_console_log_that_has_grown_begins_anew_and_shows_each_epoch_once(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LOG_BYTES", most)
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    reader, shown = RunReader(directory), list[str]()
    for epoch in range(30):
        for _ in range(2):  # an epoch that is repeated
            for sink in ("one", "two"):
                context = SinkContext(sink, epoch, "run", "0", directory.path, SCHEMA)
                _commit(Console(), context, rows(epoch, 1))
        shown += reader.console()
    expected = [f"── {sink} · epoch {n} · 1 rows" for n in range(30) for sink in ("one", "two")]
    assert [line for line in shown if "epoch" in line] == expected
    assert sum(path.stat().st_size for path in directory.path.glob("console*")) < 4_000


def test_collect_reads_epochs_in_order_and_fills_new_columns(tmp_path: Path) -> None:
    sink = Collect()
    wider = Schema.of({"key": str, "count": int, "x": float})
    _commit(sink, _context(tmp_path, 10, wider), rows(5, 1).with_columns(x=1.5))
    _commit(sink, _context(tmp_path, 9, SCHEMA), rows(9, 1), rows(3, 1))
    found = Collect.read(tmp_path / "run", "out")
    assert found["count"].to_list() == [9, 3, 5]
    assert found["x"].to_list() == [None, None, 1.5]


def test_collect_of_nothing_has_the_columns(tmp_path: Path) -> None:
    _commit(Collect(), _context(tmp_path, 0, SCHEMA))
    assert Collect.read(tmp_path / "run", "out").schema == to_polars(SCHEMA)


def test_file_names_of_different_sinks_differ() -> None:
    names = ["a/b", "a.b", "a b", "..", "a%2Fb", "ä", "~"]
    assert len({file_name(name) for name in names}) == len(names)
    assert not any("/" in file_name(name) or file_name(name).startswith(".") for name in names)
