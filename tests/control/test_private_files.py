"""The files of a run are readable by their owner alone, whatever the umask; the tables of sinks follow it."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.making_runs import make_run

import penstock as ps
from penstock.connect.file_index import FileIndex
from penstock.connect.private import make_private
from penstock.connect.sink import Sink
from penstock.connect.spool import Spooler, ended
from penstock.control.driver_process import DriverProcess
from penstock.control.driving import Request
from penstock.control.incidents import Incident, IncidentLog
from penstock.control.restarting import RestartPolicy
from penstock.control.restoring import restore
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoints import create
from penstock.errors import SinkRefused
from penstock.plan.passes import plan
from penstock.spark.handover import lay_down
from penstock.spark.options import RunOptions
from penstock.spark.session import private_local_folder
from penstock.spark.stack_files import FOLDER
from penstock.testing.sinks import SCHEMA, Harness, rows

OTHERS = stat.S_IRWXG | stat.S_IRWXO


@pytest.fixture(autouse=True)
def umask_0() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _reachable(folder: Path) -> list[Path]:
    """What another user could read or enter, walking as that user would."""
    if not _mode(folder) & OTHERS:
        return []
    inside = [path for path in folder.iterdir() if _mode(path) & OTHERS]
    return [folder, *inside, *(deep for path in inside if path.is_dir() for deep in _reachable(path))]


def _open_files(folder: Path) -> list[str]:
    return [
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and _mode(path) & OTHERS
    ]


def _topology() -> ps.Topology:
    topology = ps.Topology("t")
    topology.source("s", ps.Generator(rows, schema=SCHEMA, rows=1)).sink("out", ps.Console())
    return topology


def _filled(path: Path) -> RunDirectory:
    """A run directory in which every writer of plain Python has written."""
    run = RunDirectory(path)
    run.open("t")
    run.lock().close()
    run.begin_term()
    run.write_fabric(hops=1, partitions=1)
    run.store(1, plan(_topology()))
    run.make_current(1)
    run.record_failure(SinkRefused(sink="out", what="no", where="there", next_step="mend it"))
    run.be_careful(3)
    IncidentLog(run.incidents).add(Incident(0, 3, "death", "it died", "again"))
    lay_down(run.handover, 3, b"rows")
    FileIndex(run.planners / "files" / "index")
    Harness(ps.Console(), lambda *_: rows(0, 0), path.parent).epoch(0, [rows(0, 1)])
    return run


def test_nothing_of_a_run_can_be_reached_or_read_by_others(tmp_path: Path) -> None:
    run = _filled(tmp_path / "run")
    assert _mode(run.path) == 0o700
    assert _reachable(run.path) == []
    assert _open_files(run.path) == []


@pytest.mark.parametrize("inside", [True, False])
def test_savepoints_are_private_wherever_they_are_put_and_so_are_runs_restored_from_them(
    tmp_path: Path, inside: bool
) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    made = create(run.path, to=None if inside else tmp_path / "kept")
    assert _mode(made.path) == 0o700
    assert _open_files(made.path) == []
    restored = restore(made, tmp_path / "restored")
    assert _reachable(restored.path) == []


def test_what_is_piped_in_is_spooled_in_private(tmp_path: Path) -> None:
    source, target = os.pipe()
    os.write(target, b"one\ntwo\n")
    os.close(target)
    with Spooler(tmp_path / "spool", source):
        while not ended(tmp_path / "spool"):
            time.sleep(0)
    os.close(source)
    assert list((tmp_path / "spool").iterdir())
    assert _open_files(tmp_path / "spool") == []


def test_a_drivers_log_and_its_request_are_private(tmp_path: Path) -> None:
    request = Request(_topology(), tmp_path / "run", RunOptions(), RestartPolicy())
    process = DriverProcess(request, tmp_path / "driver.log", spare=True)
    try:
        assert _mode(tmp_path / "driver.log") == 0o600
        assert _reachable(process._folder) == []
    finally:
        process.close()


def test_a_directory_that_was_open_is_closed_with_all_that_is_in_it(tmp_path: Path) -> None:
    run = _filled(tmp_path / "run")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"another's")
    (run.path / "link").symlink_to(elsewhere)
    for path in (run.path, *(p for p in run.path.rglob("*") if not p.is_symlink())):
        path.chmod(0o777 if path.is_dir() else 0o666)
    run.open("t")
    assert _reachable(run.path) == []
    assert _mode(elsewhere) == 0o666, "what a link leads to is not the run's"
    (run.path / "link").unlink()
    assert _open_files(run.path) == []


def test_a_folder_that_is_private_already_is_not_searched_again(tmp_path: Path) -> None:
    make_private(tmp_path / "run")
    (tmp_path / "run" / "by-the-jvm").touch(0o644)
    make_private(tmp_path / "run")
    assert _mode(tmp_path / "run" / "by-the-jvm") == 0o644


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("kind", [ps.JsonLines, ps.Parquet, ps.Delta])
def test_tables_of_sinks_follow_the_users_umask(tmp_path: Path, kind: type[Sink], umask: int) -> None:
    os.umask(umask)
    sink = kind(str(tmp_path / "table"))  # type: ignore[call-arg]
    Harness(sink, lambda *_: rows(0, 0), tmp_path).epoch(0, [rows(0, 3)])
    modes = {_mode(path) for path in (tmp_path / "table").rglob("*") if path.is_file()}
    assert modes == {0o666 & ~umask}


def test_what_tasks_exchange_lies_in_a_private_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    folder = Path(private_local_folder()["spark.local.dir"])
    assert _mode(folder) == 0o700
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert private_local_folder() == {"spark.local.dir": str(tmp_path)}, "a driver's own, which goes with it"
