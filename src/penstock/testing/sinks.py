"""What every sink must keep to, as checks that any implementation runs through.

check_sink(lambda folder: MySink(folder / "out"), lambda sink, folder: sink.read(), tmp_path)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from penstock.connect.sink import Sink, SinkContext
from penstock.frames.types import empty
from penstock.topology.schema import Schema

MakeSink = Callable[[Path], Sink]
ReadSink = Callable[[Sink, Path], pl.DataFrame]
SCHEMA = Schema.of({"key": str, "count": int})


def check_sink(make: MakeSink, read: ReadSink, scratch: Path) -> None:
    """Run a sink through epochs, repetitions and crashes.

    ``make(folder)`` makes the sink, with its data below ``folder``; ``read(sink, folder)`` gives
    what a reader sees. The run's directory is ``folder / "run"``.
    """
    for check in (
        _shows_an_epoch_after_its_commit,
        _shows_an_epoch_once_when_its_commit_is_repeated,
        _shows_an_epoch_once_when_all_of_it_is_repeated,
        _shows_nothing_of_an_attempt_that_died_before_its_commit,
        _shows_nothing_of_an_aborted_writer,
        _takes_epochs_without_rows,
        _tells_runs_apart,
        _tells_its_newest_epoch_if_it_can,
    ):
        folder = scratch / check.__name__.strip("_")
        folder.mkdir(parents=True)
        check(Harness(make(folder), read, folder))


class Harness:
    """Drives a sink the way the engine does."""

    def __init__(self, sink: Sink, read: ReadSink, folder: Path) -> None:
        self.sink = pickle.loads(pickle.dumps(sink))
        self.folder = folder
        self._read = read

    def context(self, epoch: int, *, attempt: str = "0", run_id: str = "run-1") -> SinkContext:
        return SinkContext("out", epoch, run_id, attempt, self.folder / run_id.replace("-1", ""), SCHEMA)

    def write(self, context: SinkContext, shares: Sequence[Sequence[pl.DataFrame]]) -> list[Any]:
        """Write each writer's frames; the answers of all writers."""
        writers = [self.sink.open(context) for _ in shares]
        for writer, frames in zip(writers, shares, strict=True):
            for frame in frames:
                writer.write(frame)
        return [pickle.loads(pickle.dumps(writer.close())) for writer in writers]

    def epoch(self, number: int, *shares: Sequence[pl.DataFrame], attempt: str = "0") -> list[Any]:
        context = self.context(number, attempt=attempt)
        messages = self.write(context, shares)
        self.sink.commit(context, messages)
        return messages

    def seen(self) -> list[tuple[Any, ...]]:
        """What a reader sees, sorted: the order of rows is not promised by every store."""
        return sorted(self._read(self.sink, self.folder).rows())


def rows(first: int, count: int) -> pl.DataFrame:
    """Rows that can be told apart from all others."""
    numbers = range(first, first + count)
    return pl.DataFrame(
        {"key": [f"k{n}" for n in numbers], "count": list(numbers)},
        schema_overrides={"key": pl.String, "count": pl.Int64},
    )


def _of(*numbers: int) -> list[tuple[Any, ...]]:
    return sorted((f"k{n}", n) for n in numbers)


def _shows_an_epoch_after_its_commit(harness: Harness) -> None:
    harness.epoch(0, [rows(0, 2), rows(2, 1)], [rows(3, 1)])
    assert harness.seen() == _of(0, 1, 2, 3), "all rows of all writers must be there"
    harness.epoch(1, [rows(4, 1)])
    assert harness.seen() == _of(0, 1, 2, 3, 4), "a second epoch must be added"


def _shows_an_epoch_once_when_its_commit_is_repeated(harness: Harness) -> None:
    messages = harness.epoch(0, [rows(0, 2)], [rows(2, 1)])
    harness.sink.commit(harness.context(0), messages)
    harness.sink.commit(harness.context(0, attempt="1"), messages)
    assert harness.seen() == _of(0, 1, 2), "a repeated commit must change nothing"
    harness.epoch(1, [rows(3, 1)])
    harness.sink.commit(harness.context(1), [])
    assert harness.seen() == _of(0, 1, 2, 3), "the rows must survive a later repetition"


def _shows_an_epoch_once_when_all_of_it_is_repeated(harness: Harness) -> None:
    for attempt in ("0", "1", "2"):
        harness.epoch(0, [rows(0, 2)], [rows(2, 1)], attempt=attempt)
    harness.epoch(1, [rows(3, 1)])
    harness.epoch(1, [rows(3, 1)], attempt="1")
    assert harness.seen() == _of(0, 1, 2, 3), "an epoch that runs again must change nothing"


def _shows_nothing_of_an_attempt_that_died_before_its_commit(harness: Harness) -> None:
    harness.epoch(0, [rows(0, 1)])
    harness.write(harness.context(1), [[rows(1, 1)], [rows(2, 1)]])
    dead = harness.sink.open(harness.context(1, attempt="1"))
    dead.write(rows(1, 1))
    assert harness.seen() == _of(0), "nothing is visible before the commit"
    harness.epoch(1, [rows(1, 1)], [rows(2, 1)], attempt="2")
    assert harness.seen() == _of(0, 1, 2), "what a dead attempt left must not be counted"


def _shows_nothing_of_an_aborted_writer(harness: Harness) -> None:
    harness.epoch(0, [rows(0, 1)])
    closed = harness.sink.open(harness.context(1))
    closed.write(rows(1, 1))
    closed.close()
    for writer in (closed, harness.sink.open(harness.context(1))):
        writer.abort()
        writer.abort()
    assert harness.seen() == _of(0), "aborted rows must not be visible"
    harness.epoch(1, [rows(1, 1)], attempt="1")
    assert harness.seen() == _of(0, 1), "an epoch must work after an abort"


def _takes_epochs_without_rows(harness: Harness) -> None:
    harness.epoch(0)
    harness.epoch(1, [], [empty(SCHEMA)])
    assert harness.seen() == [], "an epoch without rows adds none"
    harness.epoch(2, [rows(0, 1)], [])
    harness.epoch(3)
    assert harness.seen() == _of(0)


def _tells_its_newest_epoch_if_it_can(harness: Harness) -> None:
    assert harness.sink.newest_epoch(harness.context(0)) is None, "there is none yet"
    for number in (0, 1):
        harness.epoch(number, [rows(number, 1)])
        newest = harness.sink.newest_epoch(harness.context(0))
        assert newest in (None, number), "the newest epoch that it holds, or None"


def _tells_runs_apart(harness: Harness) -> None:
    """A new run begins at epoch 0 again: that is no repetition."""
    harness.epoch(0, [rows(0, 1)])
    other = harness.context(0, run_id="run-2")
    harness.sink.commit(other, harness.write(other, [[rows(1, 1)]]))
    seen = harness.seen()
    assert _of(0)[0] in seen, "another run must not remove rows"
    harness.sink.commit(other, harness.write(other, [[rows(1, 1)]]))
    assert harness.seen() == seen, "and its repetition changes nothing"
