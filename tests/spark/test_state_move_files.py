"""The files that carry state from hop to hop, without a JVM: complete, checked, and freed in time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.control.changes import plan_change
from penstock.control.run_directory import RunDirectory
from penstock.control.spark_files import write_checked
from penstock.engine.log_transfer import clear_log
from penstock.errors import RunDirectoryBroken, StateDamaged
from penstock.plan import plan
from penstock.plan.program import Program
from penstock.spark.state_moves import StateMove, next_version, note_import, steps_of
from penstock.testing.engine import MemoryShelf
from tests.control.making_runs import make_run
from tests.engine.test_log_transfer import contents
from tests.engine.test_state_log import LOGS
from tests.testing.test_state_follows_its_node import topology


def move(run: RunDirectory, step: str, slice_: int = 0) -> StateMove:
    return StateMove(run, step, 2, "count", slice_)


def copy_of(shelf: MemoryShelf) -> MemoryShelf:
    copied = MemoryShelf()
    copied.values, copied._head = dict(shelf.values), shelf.head()
    return copied


def test_an_export_empties_the_old_place_and_an_import_fills_the_new_one(tmp_path: Path) -> None:
    run, old, new = RunDirectory(tmp_path), copy_of(LOGS["table"]), MemoryShelf()
    move(run, "export").carry_out(old, old)
    assert contents(old) == (None, {})
    for _ in range(2):  # the epoch may be repeated
        move(run, "import").carry_out(new, new)
        assert contents(new) == contents(LOGS["table"])
        clear_log(new)


def test_state_that_is_discarded_is_freed(tmp_path: Path) -> None:
    shelf = copy_of(LOGS["chunks"])
    move(RunDirectory(tmp_path), "discard").carry_out(shelf, shelf)
    assert contents(shelf) == (None, {})
    assert not (tmp_path / "moving").exists()


def test_a_missing_or_damaged_file_is_named_and_nothing_begins_empty(tmp_path: Path) -> None:
    run, shelf = RunDirectory(tmp_path), copy_of(LOGS["table"])
    with pytest.raises(RunDirectoryBroken) as missing:
        move(run, "import", slice_=1).carry_out(MemoryShelf(), MemoryShelf())
    assert missing.value.parameters["what"] == "is missing"
    move(run, "export").carry_out(shelf, shelf)
    path = tmp_path / "moving" / "000002" / "count" / "00000.log"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(RunDirectoryBroken) as damaged:
        move(run, "import").carry_out(MemoryShelf(), MemoryShelf())
    assert damaged.value.parameters["path"] == path
    assert "damaged" in damaged.value.parameters["what"]


def test_damaged_state_does_not_leave_its_place(tmp_path: Path) -> None:
    shelf = copy_of(LOGS["table"])
    shelf.values[max(shelf.values)] = b"\0" * 99
    with pytest.raises(StateDamaged):
        move(RunDirectory(tmp_path), "export").carry_out(shelf, shelf)
    assert shelf.head() is not None
    assert list((tmp_path / "moving").rglob("*.log")) == []


def stored(run: RunDirectory, *shapes: str) -> list[Program]:
    """Store versions 1, 2, … of a topology, each planned on the one before, in a fabric of three hops."""
    programs: list[Program] = []
    for version, shape in enumerate(shapes, 1):
        program = plan(topology(shape))
        if programs:
            program = plan_change(programs[-1], program, version=version, hops=3).program
        run.store(version, program)
        run.make_current(version)
        programs.append(program)
    return programs


def test_state_is_exported_under_the_old_version_and_imported_under_the_new_one(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    stored(run, "alone", "behind a map")
    assert next_version(run, {"version": 0}) == (2, None)
    assert next_version(run, {"version": 1}) == (1, 2)
    exporting = {"version": 1, "exports": 2}
    assert steps_of(run, {"version": 1}, exporting) == {"count": ("export", 3, 2)}
    assert next_version(run, exporting) == (2, None)
    assert steps_of(run, exporting, {"version": 2}) == {"count": ("import", 3, 2)}
    assert next_version(run, {"version": 2}) == (2, None)
    assert steps_of(run, {"version": 2}, {"version": 2}) == {}


def test_what_was_exported_for_a_version_waits_for_it_although_another_one_became_current(
    tmp_path: Path,
) -> None:
    run = RunDirectory(tmp_path)
    stored(run, "alone", "behind a map", "behind two maps")
    assert next_version(run, {"version": 1}) == (1, 3)
    exporting = {"version": 1, "exports": 2}
    assert next_version(run, exporting) == (2, None)
    assert next_version(run, {"version": 2}) == (2, 3)


def test_a_change_that_moves_no_state_takes_effect_at_once(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    stored(run, "behind a map", "alone")
    assert next_version(run, {"version": 1}) == (2, None)


def test_the_state_of_a_removed_node_is_discarded(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    stored(run, "before another count", "alone")
    assert next_version(run, {"version": 1}) == (1, 2)
    assert steps_of(run, {"version": 1}, {"version": 1, "exports": 2}) == {"other": ("discard", 3, 2)}
    assert steps_of(run, {"version": 1, "exports": 2}, {"version": 2}) == {}


def test_files_are_freed_when_the_offset_log_has_forgotten_the_epoch_that_imported_them(
    tmp_path: Path,
) -> None:
    run, shelf = make_run(tmp_path / "run", ps.Collect()), copy_of(LOGS["table"])
    move(run, "export").carry_out(shelf, shelf)
    note_import(run, 3, {"count": ("import", 3, 2)})
    note_import(run, 4, {})
    assert list(run.moving.rglob("*.log"))
    offsets = run.checkpoint / "offsets"
    for path in [path for path in offsets.iterdir() if path.name.lstrip(".")[0] in "0123"]:
        path.unlink()
    write_checked(offsets / "4", f"v1\n{{}}\n{json.dumps({'version': 2})}".encode())
    note_import(run, 5, {})
    assert list(run.moving.iterdir()) == []
