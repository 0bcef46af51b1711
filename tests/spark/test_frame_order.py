"""Sinks take their frames in one order, in memory that follows the largest frames and not the partition."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.control.run_directory import RunDirectory
from penstock.frames.frame import ARROW_SCHEMA, encode
from penstock.plan import plan
from penstock.spark import frame_order, rows
from penstock.spark.frame_order import FrameOrder
from penstock.spark.outlet import OutletTask
from tests.spark.topologies import totals_topology

Header = tuple[str, str, int]


def batch(rows: list[tuple[Header, bytes | None]]) -> pa.RecordBatch:
    made = [
        {**dict.fromkeys(ARROW_SCHEMA.names), "node": node, "source": source, "sequence": sequence,
         "version": 1, "epoch": 0, "kind": "data", "payload": payload}
        for (node, source, sequence), payload in rows
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(made, schema=ARROW_SCHEMA)


HEADERS = st.tuples(
    st.sampled_from(["a", "ä", "__m__"]), st.sampled_from(["s", "t#00001"]), st.integers(-3, 3)
)
BATCHES = st.lists(st.lists(st.tuples(HEADERS, st.none() | st.binary(max_size=30)), max_size=8), max_size=8)


@settings(max_examples=200, deadline=None)
@given(batches=BATCHES, budget=st.integers(0, 60), offset=st.integers(0, 2))
def test_frames_come_in_the_order_of_node_source_and_sequence_and_then_as_they_came(
    batches: list[list[tuple[Header, bytes | None]]], budget: int, offset: int
) -> None:
    before, frame_order.BUFFERED_BYTES = frame_order.BUFFERED_BYTES, budget
    try:
        with FrameOrder() as order:
            for rows in batches:
                order.add(batch(rows).slice(offset))
            found = [
                ((f["node"], f["source"], f["sequence"]), f["payload"] and f["payload"].to_pybytes())
                for f in order.frames()
            ]
    finally:
        frame_order.BUFFERED_BYTES = before
    assert found == sorted((row for rows in batches for row in rows[offset:]), key=lambda row: row[0])


def make_run(folder: Path) -> RunDirectory:
    run = RunDirectory(folder / "run")
    run.open("totals")
    run.store(1, plan(totals_topology(ps.JsonLines(folder / "out"), rows=100)))
    run.make_current(1)
    return run


def partition(run: RunDirectory, frames: int, rows: int) -> Iterator[pa.RecordBatch]:
    """Frames for the sink in the reverse of their order, one in a batch."""
    for number in reversed(range(frames)):
        noise = random.Random(number)
        users = [f"{number:05d} {noise.randbytes(40).hex()}" for _ in range(rows)]
        filled = pl.DataFrame({"user": users, "orders": number, "total": 0.5})
        yield batch([(("jsonlines", "s", number), encode(filled))])


def test_a_sink_gets_its_frames_in_order_also_if_they_do_not_fit_into_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_order, "BUFFERED_BYTES", 1000)
    run = make_run(tmp_path)
    done = OutletTask(run, "run", "0-0-0").run(partition(run, 30, 10))
    (part,) = (tmp_path / "out" / "_pending").rglob(done.sinks["jsonlines"])
    assert pl.read_ndjson(part)["orders"].to_list() == [n for n in range(30) for _ in range(10)]


@pytest.mark.long
def test_memory_of_a_sink_does_not_grow_with_the_partition(tmp_path: Path) -> None:
    peaks = [_peak_mib(tmp_path / str(frames), frames) for frames in (40, 400)]
    assert peaks[1] - peaks[0] < 120, peaks


def _peak_mib(folder: Path, frames: int) -> int:
    """Return the peak memory of a process that writes so many frames of about 2 MiB."""
    script = (
        "import resource, sys; from pathlib import Path; from tests.spark import test_frame_order as t\n"
        "folder = Path(sys.argv[1]); run = t.make_run(folder)\n"
        "task = t.OutletTask(run, 'run', '0-0-0')\n"
        "print(task.run(t.partition(run, int(sys.argv[2]), 20_000)).sinks, file=sys.stderr)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    command = [sys.executable, "-c", script, str(folder), str(frames)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, cwd=".").stdout)


def test_batches_for_spark_hold_few_payloads_and_all_frames_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BATCH_BYTES", 100)
    stamper = rows.Stamper(1, 0, Path())
    made = [stamper.control("n", i, "data", bytes([i]) * (i * 7 % 80)) for i in range(50)]
    batches = list(rows.to_batches(iter(made)))
    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches([rows.to_batch(made)]))
    sizes = [sum(len(payload) for payload in batch.column("payload").to_pylist()) for batch in batches]
    assert max(sizes) < 100 + 80
    assert min(sizes[:-1]) >= 100
