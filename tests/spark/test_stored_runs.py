"""Runs and savepoints that an earlier Penstock left go on with their state, to the sums known beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.connect.collect import read
from penstock.control.restoring import restore
from penstock.control.savepoint_files import faults, open_savepoint
from tests.upgrades import shop

pytestmark = pytest.mark.spark


def finish(directory: Path) -> Any:
    """Go on to the end with the present code; gives the adopted plan."""
    with ps.start(shop.topology(), directory=directory, master="local[2]", until="finished") as handle:
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
    last = max(int(path.name) for path in (run / "checkpoint" / "commits").glob("[0-9]*"))
    (run / "checkpoint" / "commits" / str(last)).unlink()
    (run / "checkpoint" / "commits" / f".{last}.crc").unlink()
    finish(run)
    shop.require_expected(run)


def test_a_savepoint_of_format_1_is_restored_and_goes_on(tmp_path: Path) -> None:
    savepoint = open_savepoint(shop.unpack(shop.SAVEPOINT, tmp_path / "savepoint"))
    assert faults(savepoint) == {}
    run = restore(savepoint, tmp_path / "restored")
    earlier = shop.unpack(shop.RUN, tmp_path / "run")  # what the savepoint's run had collected
    assert finish(run.path).lost == ()
    shop.require_expected(earlier, run.path)
