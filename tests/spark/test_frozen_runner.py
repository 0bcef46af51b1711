"""A runner that is stopped within a commit, and wakes when a newer one has gone on, changes nothing.

No JVM is needed: the commit of an epoch is what Spark asks of the sink's driver side.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

import penstock as ps
from penstock.connect.collect import Collect
from penstock.connect.console import Console
from penstock.connect.delta import Delta
from penstock.connect.http_post import Http
from penstock.connect.json_lines import JsonLines
from penstock.connect.parquet import ParquetFiles
from penstock.connect.sink import Sink, SinkContext, SinkWriter
from penstock.control.run_directory import RunDirectory
from penstock.errors import Fenced
from penstock.plan import plan
from penstock.spark.handover import lay_down, pick_up
from penstock.spark.outlet import OutletWriter, Written
from tests.connect.test_http_post import Receiver

NUMBERS = {"n": int}
FILES = ("delta", "parquet", "lines", "collect", "console")


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + count)}, schema={"n": pl.Int64})


def rows_of_epoch(epoch: int) -> list[int]:
    """Ten numbers that no other epoch has."""
    return list(range(10 * epoch, 10 * epoch + 10))


def sink(kind: str, folder: Path, url: str = "") -> Sink:
    made: dict[str, Callable[[], Sink]] = {
        "delta": lambda: Delta(folder / "delta"),
        "parquet": lambda: ParquetFiles(folder / "parquet"),
        "lines": lambda: JsonLines(folder / "lines"),
        "collect": lambda: Collect(),
        "console": lambda: Console(limit=100),
        "http": lambda: Http(url, rows_per_post=3),
    }
    return made[kind]()


def topology(sinks: dict[str, Sink]) -> ps.Topology:
    top = ps.Topology("numbers")
    source = top.source("input", ps.Generator(numbers, schema=NUMBERS))
    for name, made in sinks.items():
        source.sink(name, made)
    return top


@dataclass
class Runner:
    """One runner of a run, as far as it commits epochs."""

    run: RunDirectory
    term: str
    attempt: str

    def write(self, epoch: int) -> list[Written]:
        """Write an epoch as two tasks would; each runner cuts it in another way."""
        rows = rows_of_epoch(epoch)
        rows = rows[::-1] if self.attempt == "old" else rows
        program = self.run.load(1)
        tasks = []
        for part, values in enumerate((rows[:4], rows[4:])):
            task = Written(version=1)
            for name, spec in program.sinks.items():
                schema = program.input_schema(program.graph[name].inputs[0])
                attempt = f"{self.attempt}-{part}"
                context = SinkContext(name, epoch, "run", attempt, self.run.path, schema)
                writer = spec.sink.open(context)
                writer.write(pl.DataFrame({"n": values}, schema={"n": pl.Int64}))
                task.sinks[name] = writer.close()
            tasks.append(task)
        return tasks

    def commit(self, epoch: int, messages: Sequence[Written] | None = None) -> None:
        messages = self.write(epoch) if messages is None else messages
        OutletWriter(str(self.run.path), "run", self.term).commit(list(messages), epoch)


def begun(folder: Path, sinks: dict[str, Sink]) -> RunDirectory:
    run = RunDirectory(folder / "run")
    run.open("numbers")
    run.store(1, plan(topology(sinks)))
    run.make_current(1)
    return run


def seen(folder: Path, kinds: Sequence[str], receiver: Receiver | None = None) -> dict[str, Any]:
    """What readers of each sink see, and a consumer that has taken files of lines away."""
    found: dict[str, Any] = {}
    run = folder / "run"
    if "delta" in kinds:
        found["delta"] = sorted(pl.read_delta(str(folder / "delta"))["n"])
    if "parquet" in kinds:
        found["parquet"] = sorted(ParquetFiles(folder / "parquet").read()["n"])
        plainly = pl.read_parquet(folder / "parquet" / "*.parquet")  # by a reader that knows no manifests
        assert sorted(plainly["n"]) == found["parquet"]
    if "lines" in kinds:
        taken = folder / "taken"
        taken.mkdir(exist_ok=True)
        for number, file in enumerate(sorted((folder / "lines").glob("*.jsonl"))):
            file.rename(taken / f"{len(list(taken.iterdir()))}-{number}")
        found["lines"] = sorted(
            json.loads(line)["n"] for file in taken.iterdir() for line in file.read_text().splitlines()
        )
    if "collect" in kinds:
        found["collect"] = sorted(Collect.read(run, "collect")["n"])
    if "console" in kinds:
        found["console"] = sorted(map(int, re.findall(r"│ (\d+) +│", (run / "console.log").read_text())))
    if receiver is not None:
        found["http"] = sorted(row["n"] for row in receiver.rows("in"))
    return found


def in_order(run: RunDirectory, kinds: Sequence[str]) -> list[int]:
    """The rows that were collected, in the order in which they lie there."""
    return Collect.read(run.path, "collect")["n"].to_list() if "collect" in kinds else []


def expected(kinds: Sequence[str], epochs: int) -> dict[str, Any]:
    return {kind: list(range(10 * epochs)) for kind in kinds}


# --- stopped at each step that touches a file ------------------------------------------------------------

_CHANGES = frozenset(
    {"os.rename", "os.link", "os.mkdir", "os.remove", "os.truncate", "os.listdir", "os.scandir"}
)
_here = threading.local()


class Ice:
    """Stops the thread that enters it at its so-many-th step below a folder, until it is thawed."""

    def __init__(self, below: Path, step: int) -> None:
        self.below, self.left = str(below), step
        self.is_stopped, self.thawed = threading.Event(), threading.Event()

    def look(self, args: tuple[Any, ...]) -> None:
        if any(isinstance(a, str | os.PathLike) and os.fspath(a).startswith(self.below) for a in args[:2]):
            self.left -= 1
            if self.left == -1:
                self.is_stopped.set()
                assert self.thawed.wait(60)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    ice: Ice | None = getattr(_here, "ice", None)
    if ice is not None and (event == "open" or event in _CHANGES):
        ice.look(args)


sys.addaudithook(_on_event)


class Frozen(threading.Thread):
    """A runner's commit that stops at a step."""

    def __init__(self, runner: Runner, epoch: int, messages: list[Written], ice: Ice) -> None:
        super().__init__()
        self._work = lambda: runner.commit(epoch, messages)
        self._ice = ice
        self.error: BaseException | None = None

    def run(self) -> None:
        _here.ice = self._ice
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            _here.ice = None
            self._ice.is_stopped.set()


def frozen_at(folder: Path, kinds: Sequence[str], step: int, receiver: Receiver | None = None) -> bool:
    """Freeze a runner at a step of its commit, let a newer one go on, wake it. False: it has no such step."""
    url = receiver.url("in") if receiver else ""
    run = begun(folder, {kind: sink(kind, folder, url) for kind in kinds})
    older = Runner(run, run.begin_term(), "old")
    older.commit(0)
    ice = Ice(folder, step)
    held_up = Frozen(older, 1, older.write(1), ice)
    held_up.start()
    assert ice.is_stopped.wait(60)
    was_frozen = ice.left < 0
    newer = Runner(run, run.begin_term(), "new")
    try:
        newer.commit(1)
        newer.commit(2)
        payload = lay_down(run.handover, 3, b"of an epoch in flight")
        before = seen(folder, kinds, receiver)
        assert before == expected(kinds, 3)
        ordered = in_order(run, kinds)
    finally:
        ice.thawed.set()
        held_up.join()
    assert isinstance(held_up.error, Fenced | None), held_up.error
    assert seen(folder, kinds, receiver) == before, "the older runner has changed something"
    assert in_order(run, kinds) == ordered
    posts = len(receiver.requests) if receiver else 0
    newer.commit(2)
    assert receiver is None or len(receiver.requests) == posts, "what was accepted is not sent again"
    assert run.take_failure() is None
    assert bytes(pick_up(run.handover, payload)) == b"of an epoch in flight"
    progress = run.last_progress()
    assert progress is not None
    assert (progress.epoch, progress.fence) == (2, 2)
    newer.commit(3)
    assert seen(folder, kinds, receiver) == expected(kinds, 4)
    return was_frozen


@pytest.mark.long
@pytest.mark.parametrize("kind", FILES)
def test_a_runner_that_is_stopped_at_any_step_of_its_commit_changes_nothing(
    kind: str, tmp_path: Path
) -> None:
    step = 0
    while frozen_at(tmp_path / str(step), [kind], step):
        step += 1
    assert step > 10, "a commit has more steps than that"


def woken_before_the_newer_commits(folder: Path, kinds: Sequence[str], step: int) -> bool:
    """Wake the older runner while the newer one repeats the epoch. False: there is no such step."""
    run = begun(folder, {kind: sink(kind, folder) for kind in kinds})
    older = Runner(run, run.begin_term(), "old")
    older.commit(0)
    ice = Ice(folder, step)
    held_up = Frozen(older, 1, older.write(1), ice)
    held_up.start()
    assert ice.is_stopped.wait(60)
    was_frozen = ice.left < 0
    newer = Runner(run, run.begin_term(), "new")
    try:
        payload = lay_down(run.handover, 1, b"of the epoch that is repeated")
        messages = newer.write(1)
    finally:
        ice.thawed.set()
        held_up.join()
    assert isinstance(held_up.error, Fenced | None), held_up.error
    assert bytes(pick_up(run.handover, payload)) == b"of the epoch that is repeated"
    newer.commit(1, messages)
    newer.commit(2)
    assert seen(folder, kinds) == expected(kinds, 3)
    return was_frozen


@pytest.mark.long
@pytest.mark.parametrize("kind", FILES)
def test_a_runner_that_wakes_while_its_epoch_is_repeated_makes_no_row_come_twice(
    kind: str, tmp_path: Path
) -> None:
    step = 0
    while woken_before_the_newer_commits(tmp_path / str(step), [kind], step):
        step += 1
    assert step > 10


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.long
def test_a_receiver_gets_nothing_new_from_a_runner_that_was_stopped_at_any_step(tmp_path: Path) -> None:
    step, goes_on = 0, True
    while goes_on:
        with Receiver() as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                goes_on = frozen_at(tmp_path / str(step), ["http"], step, server)
                # The keys tell which requests are the same; none may come with other rows.
                assert len(server.accepted) == len({key for _, key in server.accepted}) == 4 * 4
            finally:
                server.shutdown()
                thread.join()
        step += 1
    assert step > 10


# --- a process that is stopped by a signal ---------------------------------------------------------------


class _NoWriter(SinkWriter):
    def write(self, df: pl.DataFrame) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is kept."""

    def abort(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class Gate(Sink):
    """Comes first among the sinks, after the runner's check, and stops a process that may not pass."""

    def open(self, context: SinkContext) -> SinkWriter:
        return _NoWriter()

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        if os.environ.get("PENSTOCK_TEST_STOPS") and context.epoch == 1:
            os.kill(os.getpid(), signal.SIGSTOP)


_OLDER = """
import sys
from pathlib import Path
from penstock.control.run_directory import RunDirectory
from penstock.errors import Fenced
from tests.spark.test_frozen_runner import Runner
run = RunDirectory(Path(sys.argv[1]))
older = Runner(run, run.begin_term(), "old")
older.commit(0)
try:
    older.commit(1)
except Fenced as error:
    print(error.condition)
"""


@pytest.mark.long
def test_a_process_that_was_stopped_between_its_check_and_its_sinks_changes_nothing(
    tmp_path: Path, receiver: Receiver
) -> None:
    kinds = (*FILES, "http")
    sinks = {kind: sink(kind, tmp_path, receiver.url("in")) for kind in kinds}
    run = begun(tmp_path, {"gate": Gate(), **sinks})
    older = subprocess.Popen(
        [sys.executable, "-c", _OLDER, str(run.path)],
        env={**os.environ, "PENSTOCK_TEST_STOPS": "1"},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while psutil.Process(older.pid).status() != psutil.STATUS_STOPPED:
            assert older.poll() is None, "it ended before it came to its sinks"
            threading.Event().wait(0.01)
        assert seen(tmp_path, kinds, receiver) == expected(kinds, 1)
        newer = Runner(run, run.begin_term(), "new")
        newer.commit(1)
        newer.commit(2)
        before = seen(tmp_path, kinds, receiver)
        assert before == expected(kinds, 3)
        older.send_signal(signal.SIGCONT)
        assert older.communicate(timeout=120)[0] == "FENCED\n"
    finally:
        older.kill()
        older.wait()
    assert seen(tmp_path, kinds, receiver) == before
    newer.commit(3)
    assert seen(tmp_path, kinds, receiver) == expected(kinds, 4)
