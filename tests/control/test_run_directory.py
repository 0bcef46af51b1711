"""What must outlive a run: versions that cannot be damaged unseen, a lock, a log that survives torn lines."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.topology import shop

import penstock as ps
from penstock.connect.sealed import digest
from penstock.control import run_directory
from penstock.control.progress import NodeProgress, Progress
from penstock.control.run_directory import RunDirectory, read_progress
from penstock.errors import (
    InternalError,
    OperatorFailed,
    RunDirectoryBroken,
    RunDirectoryInUse,
    RunDirectoryMismatch,
)
from penstock.plan import plan


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path / "run")
    made.open("shop")
    return made


def progress(epoch: int, **values: Any) -> Progress:
    return Progress(
        epoch=epoch, version=1, events=10, total_events=10 * epoch, epoch_ms=5.0, at_ns=epoch, **values
    )


def test_a_run_keeps_its_id(directory: RunDirectory) -> None:
    assert directory.open("shop") == directory.open("shop")
    assert RunDirectory(directory.path).open("shop") == directory.open("shop")


def test_a_directory_of_another_topology_is_refused(directory: RunDirectory) -> None:
    with pytest.raises(RunDirectoryMismatch) as caught:
        directory.open("other")
    assert caught.value.condition == "RUN_DIRECTORY_MISMATCH"
    assert caught.value.parameters["directory"] == directory.path


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2, "topology": "shop", "run_id": "x"}'])
def test_a_card_that_cannot_be_read_is_refused(directory: RunDirectory, text: str) -> None:
    (directory.path / "run.json").write_text(text)
    with pytest.raises(RunDirectoryBroken) as caught:
        directory.open("shop")
    assert caught.value.parameters["path"] == directory.path / "run.json"


def test_a_directory_of_the_format_before_is_sealed_and_goes_on(directory: RunDirectory) -> None:
    card = '{"format": 1, "topology": "shop", "run_id": "x"}'
    (directory.path / "run.json").write_text(card)
    (directory.path / "current").write_text("3")
    (directory.path / "fabric.json").write_text('{"hops": 2, "partitions": 5}')
    directory.observed.write_text('{"a": 7}')
    for _ in range(2):
        assert directory.open("shop") == "x"
        assert directory.current() == 3
        assert directory.fabric() == {"hops": 2, "partitions": 5}
        assert directory.read_observed() == {"a": 7}


@pytest.mark.long
@pytest.mark.parametrize("name", ["run.json", "current", "fabric.json", "observed.json"])
def test_every_flipped_bit_and_every_cut_of_a_small_file_is_found(directory: RunDirectory, name: str) -> None:
    directory.make_current(12)
    directory.write_fabric(hops=1, partitions=2)
    directory.write_observed({"a": 7})
    (directory.checkpoint / "offsets").mkdir(parents=True)
    (directory.checkpoint / "offsets" / "0").touch()
    path = directory.path / name
    before = path.read_bytes()
    values = json.loads(before)
    flips = [(i, bit) for i in range(len(before)) for bit in range(8)]
    damaged = [bytes([*before[:i], before[i] ^ (1 << bit), *before[i + 1 :]]) for i, bit in flips]
    for content in (*damaged, *(before[:n] for n in range(len(before)))):
        path.write_bytes(content)
        with contextlib.suppress(ValueError):
            if json.loads(content) == values:  # a flip within the white space
                continue
        with pytest.raises(RunDirectoryBroken) as caught:
            directory.open("shop"), directory.current(), directory.fabric(), directory.read_observed()
        assert caught.value.parameters["path"] == path


def test_a_missing_file_of_a_run_that_has_begun_is_named(directory: RunDirectory) -> None:
    (directory.checkpoint / "offsets").mkdir(parents=True)
    (directory.checkpoint / "offsets" / "0").touch()
    with pytest.raises(RunDirectoryBroken) as caught:
        directory.current()
    assert caught.value.parameters["path"] == directory.path / "current"


def test_a_checkpoint_without_a_card_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(RunDirectoryMismatch):
        RunDirectory(tmp_path).open("shop")


@pytest.mark.long
def test_another_process_finds_the_lock_and_who_holds_it(directory: RunDirectory) -> None:
    import os

    script = (
        "import sys; from pathlib import Path\n"
        "from penstock.control.run_directory import RunDirectory\n"
        "from penstock.errors import RunDirectoryInUse\n"
        "try:\n    RunDirectory(Path(sys.argv[1])).lock()\n"
        "except RunDirectoryInUse as error:\n    print(error.parameters['pid'])\n"
        "else:\n    print('free')\n"
    )

    def ask() -> str:
        command = [sys.executable, "-c", script, str(directory.path)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()

    with directory.lock():
        assert ask() == str(os.getpid())
        with pytest.raises(RunDirectoryInUse) as caught:
            directory.lock()
        assert caught.value.parameters["directory"] == directory.path
    with directory.lock():
        pass  # free again


@pytest.mark.long
def test_a_version_comes_back_and_runs(directory: RunDirectory) -> None:
    from penstock import testing

    program = plan(shop.topology())
    directory.store(1, program)
    again = directory.load(1)
    assert again.graph.same_as(program.graph)
    assert dict(again.schemas) == dict(program.schemas)
    assert [n.logic for n in again.graph] == [n.logic for n in program.graph]
    result = testing.run(ps.Topology("shop", again.graph))
    assert result["table"].equals(testing.run(shop.topology())["table"])


def test_versions_are_listed_and_one_is_current(directory: RunDirectory) -> None:
    assert (directory.versions(), directory.current()) == ([], 0)
    for version in (1, 2, 11):
        directory.store(version, plan(shop.topology()))
    directory.make_current(11)
    assert (directory.versions(), directory.current()) == ([1, 2, 11], 11)
    values = json.loads((directory.path / "versions" / "000002.json").read_text())
    assert values["name"] == "shop"


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b"x" + b[41:], lambda b: b + b"x"]
)
def test_a_damaged_version_is_found(directory: RunDirectory, damage: Any) -> None:
    directory.store(1, plan(shop.topology()))
    directory.load(1)
    path = directory.path / "versions" / "000001.program"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(RunDirectoryBroken) as caught:
        directory.load(1)
    assert "digest" in caught.value.parameters["what"]


def test_a_version_that_is_not_there_is_told(directory: RunDirectory) -> None:
    with pytest.raises(RunDirectoryBroken) as caught:
        directory.load(7)
    assert caught.value.parameters["path"].name == "000007.program"


def test_a_directory_that_was_made_anew_in_the_same_place_is_not_the_old_one(directory: RunDirectory) -> None:
    directory.store(1, plan(shop.topology(limit=1.0)))
    assert directory.load(1).graph["totals"].spec.operator.limit == 1.0  # type: ignore[attr-defined]
    shutil.rmtree(directory.path)
    directory.open("shop")
    directory.store(1, plan(shop.topology(limit=2.0)))
    assert directory.load(1).graph["totals"].spec.operator.limit == 2.0  # type: ignore[attr-defined]


@pytest.mark.long
def test_a_version_carries_the_users_module_as_it_was(directory: RunDirectory, tmp_path: Path) -> None:
    """Workers cannot import a script, and an edited one must not slip into an earlier version."""
    module = tmp_path / "users_app.py"
    module.write_text(
        "import polars as pl\nimport penstock as ps\n"
        "def factor():\n    return 3\n"
        "def scaled(df):\n    return df.select(pl.col('amount') * factor())\n"
        "from tests.topology import shop\n"
        "top = ps.Topology('shop')\n"
        "rows = top.source('rows', ps.Generator(shop.make_orders, schema=shop.ORDERS, rows=3))\n"
        "rows.map('scaled', scaled).sink('out', ps.Collect())\n"
    )
    script = (
        "import sys; from pathlib import Path; sys.path[:0] = [sys.argv[2], '']\n"
        "import users_app\nfrom penstock.plan import plan\n"
        "from penstock.control.run_directory import RunDirectory\n"
        "RunDirectory(Path(sys.argv[1])).store(1, plan(users_app.top))\n"
    )
    command = [sys.executable, "-c", script, str(directory.path), str(tmp_path)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, timeout=60)
    module.unlink()
    from penstock import testing

    program = directory.load(1)
    assert testing.run(ps.Topology("shop", program.graph))["out"]["amount"].to_list() == [0.0, 3.0, 6.0]


def test_an_error_of_a_worker_is_handed_over_once(directory: RunDirectory) -> None:
    assert directory.take_failure() is None
    error = OperatorFailed(node="n", site="a.py:1", epoch=3, error="E", saved="-", traceback="T")
    directory.record_failure(error)
    taken = directory.take_failure()
    assert isinstance(taken, OperatorFailed)
    assert taken.parameters == error.parameters
    assert directory.take_failure() is None
    directory.record_failure(InternalError(what="x"))
    directory.record_failure(error)
    assert isinstance(directory.take_failure(), OperatorFailed)


def test_an_epoch_that_comes_to_its_commit_has_no_failure_any_more(directory: RunDirectory) -> None:
    directory.record_failure(InternalError(what="of a task that was tried again"))
    directory.note_failed(3, "code")
    assert directory.read_failed() == (3, "code")
    directory.forget_failures()
    directory.forget_failures()
    assert directory.read_failed() is None
    assert directory.take_failure() is None


def test_a_runner_holds_its_own_epochs_only(directory: RunDirectory) -> None:
    older, newer = directory.begin_term(), directory.begin_term()
    directory.hold(older).touch()
    assert not directory.hold(newer).exists()
    directory.end_holds()
    assert not directory.hold(older).exists()


def test_the_newest_progress_is_found(directory: RunDirectory) -> None:
    assert directory.last_progress() is None
    for epoch in range(3):
        directory.append_progress(progress(epoch))
    assert directory.last_progress() == progress(2)


def test_a_torn_line_spoils_neither_what_was_before_nor_what_comes_after(directory: RunDirectory) -> None:
    directory.append_progress(progress(1))
    with directory.progress_log.open("a") as file:
        file.write(progress(2).to_json()[:40])
    assert directory.last_progress() == progress(1)
    directory.append_progress(progress(3))
    assert directory.last_progress() == progress(3)
    lines = directory.progress_log.read_bytes().splitlines()
    assert [p.epoch for p in map(read_progress, lines) if p] == [1, 3]


@pytest.mark.parametrize("line", [b"", b"{", b"5", b"[]", b"null", b"{}", b'{"epoch": 1}', b"\xff\xfe"])
def test_what_is_no_progress_is_passed_over(line: bytes) -> None:
    assert read_progress(line) is None


def test_a_long_log_lets_its_older_half_go(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_directory, "PROGRESS_BYTES", 1_000)
    for epoch in range(50):
        directory.append_progress(progress(epoch))
        assert directory.last_progress() == progress(epoch)
    kept = sum(path.stat().st_size for path in directory.path.glob("progress*"))
    assert kept < 3_000
    directory.progress_log.unlink()
    last = directory.last_progress()
    assert last is not None
    assert last.epoch < 49


def test_times_seen_are_empty_at_first(directory: RunDirectory) -> None:
    assert directory.read_observed() == {}
    directory.write_observed({"a": 5})
    assert directory.read_observed() == {"a": 5}


def test_progress_comes_back_from_json_with_its_nodes() -> None:
    node = NodeProgress("totals", "process", rows_in=3, rows_out=2, busy_ms=1.5, state_bytes=9)
    made = progress(4, lag_rows=7, lag_bytes=None, dead_letters=1, finished=True, nodes=(node,))
    assert Progress.from_json(made.to_json()) == made
    assert "\n" not in made.to_json()
    assert json.loads(made.to_json())["nodes"][0]["state_bytes"] == 9


def test_the_rate_is_events_over_the_epochs_time() -> None:
    assert progress(1).events_per_s == 2_000.0
    assert Progress(0, 1, 5, 5, 0.0, 1).events_per_s == 0.0


def test_a_failure_that_another_python_has_left_does_not_stand_in_the_way(directory: RunDirectory) -> None:
    body = b"\x80\x05\x8c\x0da_later_module\x8c\x01x\x93."
    directory.failures.mkdir()
    (directory.failures / "last.pickle").write_bytes(digest(body) + body)
    assert directory.take_failure() is None
    assert directory.take_failure() is None
