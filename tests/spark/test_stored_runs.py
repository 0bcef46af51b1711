"""Runs and savepoints that an earlier Penstock left go on with their state, to the sums known beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import penstock as ps
from penstock.cli.loading import load
from penstock.connect.collect import read
from penstock.connect.sealed import digest
from penstock.control.restoring import restore
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoint_files import faults, open_savepoint
from penstock.control.version_record import made_by, record_of
from penstock.plan import plan
from tests.upgrades import shop

pytestmark = pytest.mark.spark


def finish(directory: Path, topology: ps.Topology | None = None) -> Any:
    """Go on to the end with the present code; gives the adopted plan."""
    with ps.start(
        topology or shop.topology(), directory=directory, master="local[2]", until="finished"
    ) as handle:
        handle.wait()
        return handle.adopted


def test_a_run_of_format_2_goes_on_with_its_state(tmp_path: Path) -> None:
    run = shop.unpack(shop.RUN, tmp_path / "run")
    before = len(read(run, "out-totals"))
    adopted = finish(run)
    assert not adopted.swapped
    assert not adopted.lost
    assert len(read(run, "out-totals")) > before > 0
    shop.require_expected(run)


def test_an_epoch_of_a_format_2_run_that_was_not_committed_is_repeated(tmp_path: Path) -> None:
    run = shop.unpack(shop.RUN, tmp_path / "run")
    forget_last_commit(run)
    finish(run)
    shop.require_expected(run)


def test_a_savepoint_of_format_1_is_restored_and_goes_on(tmp_path: Path) -> None:
    savepoint = open_savepoint(shop.unpack(shop.SAVEPOINT, tmp_path / "savepoint"))
    assert faults(savepoint) == {}
    run = restore(savepoint, tmp_path / "restored")
    earlier = shop.unpack(shop.RUN, tmp_path / "run")  # what the savepoint's run had collected
    assert finish(run.path).lost == ()
    shop.require_expected(earlier, run.path)


def as_if_made_elsewhere(run: Path, *, begun: bool) -> RunDirectory:
    """Let the version of a stored run be another Python's: its code is noise here. ``begun``: an epoch is."""
    directory = RunDirectory(run)
    record = record_of(replace(plan(shop.topology()), born=directory.load(1).born))
    record = replace(record, made_by={**made_by(), "python": "3.10.4"})
    directory.version_files.store_record(1, record)
    body = cloudpickle.dumps({"search_path": [], "body": b"byte code of another Python"})
    (run / "versions" / "000001.program").write_bytes(digest(body) + body)
    if begun:
        forget_last_commit(run)
    return directory


def forget_last_commit(run: Path) -> None:
    last = max(int(path.name) for path in (run / "checkpoint" / "commits").glob("[0-9]*"))
    (run / "checkpoint" / "commits" / str(last)).unlink()
    (run / "checkpoint" / "commits" / f".{last}.crc").unlink()


def test_a_run_whose_code_cannot_be_loaded_is_rebuilt_and_repeats_its_unfinished_epoch(
    tmp_path: Path,
) -> None:
    run = as_if_made_elsewhere(shop.unpack(shop.RUN, tmp_path / "run"), begun=True)
    adopted = finish(run.path)
    assert not adopted
    assert run.versions() == [1]
    shop.require_expected(run.path)


def test_a_change_that_comes_with_an_upgrade_is_adopted_with_its_state(tmp_path: Path) -> None:
    run = as_if_made_elsewhere(shop.unpack(shop.RUN, tmp_path / "run"), begun=False)
    edited = tmp_path / shop.APP.name
    before, after = "state.get(user, 0) + amount", "amount + state.get(user, 0)"
    assert before in shop.APP.read_text()
    edited.write_text(shop.APP.read_text().replace(before, after))
    adopted = finish(run.path, load(str(edited)))
    assert adopted.swapped == (("ledger", "logic or parameters"),)
    assert adopted.lost == ()
    assert run.versions() == [1, 2]
    shop.require_expected(run.path)
