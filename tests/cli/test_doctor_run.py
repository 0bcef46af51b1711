"""What the doctor says of a run before Python or a library is upgraded, and after. It touches nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pytest
from tests.control.making_runs import made_elsewhere, make_run
from tests.upgrades import shop
from typer.testing import CliRunner

import penstock as ps
from penstock.cli.commands import app
from penstock.cli.doctor import Check
from penstock.cli.doctor_run import examine_run
from penstock.connect.sealed import digest
from penstock.control.rebuilding import prepare
from penstock.control.run_directory import RunDirectory
from penstock.plan import plan


def version(directory: Path) -> Check:
    return next(check for check in examine_run(directory) if check.name == "version of the run")


def edit_sources(run: RunDirectory) -> None:
    """Let the sources be others than those that the version was made of."""
    record = run.version_files.record(1)
    assert record is not None
    run.version_files.store_record(1, replace(record, files=dict.fromkeys(record.files, "0" * 32)))


def test_a_folder_without_a_run_is_not_spoken_of(tmp_path: Path) -> None:
    assert list(examine_run(tmp_path)) == []


def test_a_run_of_this_python_is_well(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    assert [check.status for check in examine_run(run.path)] == ["ok", "ok"]


def test_an_upgraded_run_whose_sources_are_unchanged_is_to_be_started_as_before(tmp_path: Path) -> None:
    run = made_elsewhere(tmp_path, shop.topology())
    check = version(run.path)
    assert (check.status, "3.10.4" in check.found, "rebuilt" in check.advice) == ("warn", True, True)
    prepare(run, plan(shop.topology()))
    assert version(run.path).status == "ok"


def test_an_upgraded_run_whose_sources_were_edited_says_which_files(tmp_path: Path) -> None:
    run = made_elsewhere(tmp_path, shop.topology())
    edit_sources(run)
    check = version(run.path)
    assert check.status == "warn"
    assert "stored_shop.py" in check.found


def test_an_unfinished_epoch_whose_sources_are_gone_stands_in_the_way(tmp_path: Path) -> None:
    run = made_elsewhere(tmp_path, shop.topology(), committed=2)
    edit_sources(run)
    check = version(run.path)
    assert (check.status, "caught-up" in check.advice) == ("missing", True)


def test_a_version_without_a_record_is_to_be_started_before_the_upgrade(tmp_path: Path) -> None:
    run = shop.unpack(shop.RUN, tmp_path / "run")
    assert (version(run).status, "before" in version(run).advice) == ("warn", True)


def test_a_version_without_a_record_by_another_python_cannot_go_on(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect())
    (run.path / "versions" / "000001.record.json").unlink()
    body = cloudpickle.dumps({"search_path": ["/usr/lib/python310.zip"], "body": b"noise"})
    (run.path / "versions" / "000001.program").write_bytes(digest(body) + body)
    check = version(run.path)
    assert (check.status, "3.10" in check.advice) == ("missing", True)


@pytest.mark.parametrize(
    ("card", "status"),
    [
        ({"format": 99, "topology": "t"}, "missing"),
        ({"format": 1, "topology": "t", "run_id": "x"}, "ok"),
        ([], "missing"),
    ],
)
def test_the_format_of_a_run_is_told_and_not_changed(tmp_path: Path, card: object, status: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(card))
    assert [check.status for check in examine_run(tmp_path)] == [status]
    assert path.read_text() == json.dumps(card)


def test_the_command_ends_with_an_error_if_a_run_cannot_go_on(tmp_path: Path) -> None:
    run = made_elsewhere(tmp_path, shop.topology(), committed=2)
    edit_sources(run)
    before = sorted(path.name for path in (run.path / "versions").iterdir())
    done = CliRunner().invoke(app, ["doctor", "--dir", str(run.path)])
    assert done.exit_code == 1
    assert "stored_shop.py" in done.output
    assert sorted(path.name for path in (run.path / "versions").iterdir()) == before
