"""Savepoints: taken between epochs, whole or not at all, checked file by file, restored anywhere."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from tests.control.making_runs import make_run
from tests.spark.topologies import totals_topology
from typer.testing import CliRunner

import penstock as ps
from penstock.cli.commands import app
from penstock.connect.sink import SinkContext
from penstock.control import checkpoint, savepoints
from penstock.control.adoption import adopt_at_rest
from penstock.control.changing import change_version
from penstock.control.holding import HoldLost, clear_holds, hold, honour_hold
from penstock.control.restoring import is_restored, later_epochs, restore
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoint_diff import compare
from penstock.control.savepoint_files import Savepoint, faults, open_savepoint
from penstock.control.savepoints import create, savepoints_of
from penstock.control.spark_files import fault_of
from penstock.errors import RunDirectoryBroken, RunDirectoryMismatch, SavepointBroken, SavepointFailed
from penstock.plan import plan
from penstock.spark.options import RunOptions


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", ps.Collect())


@contextmanager
def running(run: RunDirectory) -> Iterator[None]:
    """Somebody holds the lock and asks for the next epoch again and again, as Spark does."""
    ended, term = threading.Event(), run.begin_term()

    def plan_epochs() -> None:
        while not ended.wait(0.001):
            honour_hold(run, term)

    with run.lock():
        thread = threading.Thread(target=plan_epochs)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content if how == "flip" else content[: len(content) // 2])


def test_a_stopped_run_is_saved_under_its_lock(run: RunDirectory) -> None:
    made = create(run.path)
    manifest = made.manifest
    assert (manifest.topology, manifest.epoch, manifest.version, manifest.pause_ms) == ("totals", 2, 1, 0.0)
    assert (manifest.hops, manifest.partitions, manifest.state_bytes) == (1, 2, {"totals": 300})
    assert manifest.run_id == run.read_card()["run_id"]
    assert "priced" in manifest.description
    assert faults(made) == {}
    assert not list((run.path / "savepoints").glob(".*"))  # nothing is left of the making


def test_what_can_be_made_again_from_compressed_files_is_left_out(run: RunDirectory) -> None:
    segment = run.planners / "orders" / "expanded" / "0" / "00000000.segment"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(b"content")
    assert not [name for name in create(run.path).manifest.files if "expanded" in name]


@pytest.mark.long
def test_a_running_topology_is_held_for_the_links_only(run: RunDirectory) -> None:
    with running(run):
        made = create(run.path)
        again = create(run.path)
    assert 0 < made.manifest.pause_ms < 5_000
    assert faults(again) == {}
    assert not list((run.path / "holds").iterdir())


def test_what_an_unfinished_epoch_left_is_not_saved(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect(), committed=3, planned=4)
    names = create(run.path).manifest.files
    assert "checkpoint/offsets/2" in names
    assert "checkpoint/state/0/0/3.changelog" in names
    assert not [name for name in names if name.startswith(("checkpoint/offsets/3", "checkpoint/offsets/.3"))]
    assert not [name for name in names if "4.changelog" in name]


def test_a_savepoint_shares_nothing_with_its_run(run: RunDirectory) -> None:
    made = create(run.path)
    damage(run.checkpoint / "state/0/0/SSTs/000008-a.sst", "flip")
    shutil.rmtree(run.path / "versions")
    assert faults(made) == {}


def test_what_is_damaged_already_is_not_saved(run: RunDirectory) -> None:
    damage(run.checkpoint / "state/0/1/2.changelog", "flip")
    with pytest.raises(RunDirectoryBroken) as caught:
        create(run.path)
    assert caught.value.parameters["path"] == run.checkpoint / "state/0/1/2.changelog"
    assert savepoints_of(run.path) == []


def test_a_run_without_a_committed_epoch_cannot_be_saved(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", ps.Collect(), committed=0, planned=1)
    with pytest.raises(SavepointFailed):
        create(run.path)
    with pytest.raises(SavepointFailed):
        create(tmp_path / "nothing")


def test_a_run_goes_on_when_the_limit_of_a_hold_has_passed(run: RunDirectory) -> None:
    with running(run), hold(run, limit_s=0.05, give_up=lambda: False) as held:
        assert held is not None
        held.require()
        while list((run.path / "holds").glob("*.request")):  # the run takes it away, and goes on
            threading.Event().wait(0.005)
        with pytest.raises(HoldLost):
            held.require()


def test_a_run_that_begins_ends_the_holds_of_the_one_before(run: RunDirectory) -> None:
    with running(run), hold(run, limit_s=30, give_up=lambda: False) as held:
        assert held is not None
        clear_holds(run)
        with pytest.raises(HoldLost):
            held.require()


def test_a_hold_by_a_runner_that_was_replaced_holds_nobody(run: RunDirectory) -> None:
    with running(run), hold(run, limit_s=30, give_up=lambda: False) as held:
        assert held is not None
        run.begin_term()
        with pytest.raises(HoldLost):
            held.require()


@pytest.mark.long
def test_a_savepoint_whose_hold_was_lost_is_taken_again(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([True, False])
    link_tree = savepoints.link_tree

    def slow(source: Path, target: Path) -> None:
        link_tree(source, target)
        if source == run.checkpoint and next(losses):
            clear_holds(run)

    monkeypatch.setattr(savepoints, "link_tree", slow)
    with running(run):
        assert faults(create(run.path)) == {}
    assert len(savepoints_of(run.path)) == 1


@pytest.mark.long
@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_every_damaged_file_is_named(run: RunDirectory, how: str) -> None:
    made = create(run.path)
    for name in made.manifest.files:
        path = made.files.path / name
        before = path.read_bytes()
        if how == "gone":
            path.unlink()
        else:
            damage(path, how)
        assert list(faults(made)) == [name]
        with pytest.raises(SavepointBroken) as caught:
            restore(made, run.path.with_name("restored"))
        assert name in caught.value.parameters["what"]
        assert [p.name for p in run.path.parent.iterdir()] == ["run"]  # nothing half restored
        path.write_bytes(before)


def test_a_damaged_manifest_is_named(run: RunDirectory) -> None:
    made = create(run.path)
    damage(made.path / "savepoint.json", "flip")
    with pytest.raises(SavepointBroken) as caught:
        open_savepoint(made.path)
    assert caught.value.parameters["savepoint"] == made.path
    assert [type(found) for found in savepoints_of(run.path)] == [SavepointBroken]
    with pytest.raises(SavepointBroken):
        open_savepoint(run.path)


def restored(run: RunDirectory, name: str = "restored") -> tuple[Savepoint, RunDirectory]:
    made = create(run.path)
    return made, restore(made, run.path.with_name(name))


def test_a_restored_run_is_one_of_its_own(run: RunDirectory) -> None:
    made, back = restored(run)
    assert back.open("totals") != run.open("totals")
    assert (back.checkpoint / "metadata").read_bytes() != (run.checkpoint / "metadata").read_bytes()
    assert (back.current(), back.fabric(), back.read_observed()) == (1, run.fabric(), {"orders": 7})
    assert (back.planners / "orders" / "files.jsonl").exists()
    last = back.last_progress()
    assert last is not None
    assert last.epoch == 2
    assert is_restored(back.path, made)
    assert not is_restored(run.path, made)


def test_a_restored_run_is_whatever_it_is_started_with(run: RunDirectory) -> None:
    """The table of the run that was saved must not get the same epochs again."""
    elsewhere = plan(totals_topology(ps.Parquet(run.path.with_name("elsewhere")), rows=100))
    change_version(run, elsewhere, planned_on=1, hops=1)
    back = restored(run)[1]
    assert back.current() == 2
    adoption = adopt_at_rest(back, plan(totals_topology(ps.Collect(), rows=100)), RunOptions(app="any"))
    assert adoption.proposed is None
    assert back.load(back.current()).sinks.keys() == {"collect"}


def test_a_restored_checkpoint_names_its_own_place(run: RunDirectory) -> None:
    _, back = restored(run)
    metadata = (back.checkpoint / "state/0/_metadata/v2/0").read_text()
    (schema,) = json.loads(metadata.partition("\n")[2])["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert schema == f"file:{back.checkpoint}/state/0/_stateSchema/default/0_a"
    assert str(run.path) + "/" not in metadata
    checkpoint.check(back.path)
    assert all(fault_of(p) is None for p in back.checkpoint.rglob("*") if p.is_file() and p.suffix != ".crc")


def test_nothing_is_restored_over_a_run(run: RunDirectory) -> None:
    made = create(run.path)
    with pytest.raises(RunDirectoryMismatch):
        restore(made, run.path)


def test_tables_that_hold_later_epochs_are_named(tmp_path: Path) -> None:
    sinks = ps.Delta(str(tmp_path / "table")), ps.Parquet(str(tmp_path / "files"))
    run = make_run(tmp_path / "run", *sinks)
    made = create(run.path)
    program = run.load(1)
    rows = pl.DataFrame({"user": ["a"], "orders": [1], "total": [1.0]})
    for epoch, later in ((2, set()), (5, {"delta", "parquet"})):
        for name, sink in zip(("delta", "parquet"), sinks, strict=True):
            schema = program.input_schema(program.graph[name].inputs[0])
            context = SinkContext(name, epoch, made.manifest.run_id, "0", run.path, schema)
            writer = sink.open(context)
            writer.write(rows)
            sink.commit(context, [writer.close()])
        assert later_epochs(made).keys() == later
    assert "epochs 3 to 5" in later_epochs(made)["delta"]


def test_two_savepoints_are_compared(tmp_path: Path) -> None:
    old = create(make_run(tmp_path / "a", ps.Collect(), committed=2, planned=2).path)
    new = create(make_run(tmp_path / "b", ps.Collect(), factor=2.0).path)
    text = compare(old, new)
    assert "epoch: 1 → 2 (+1)" in text
    assert "~ priced: logic or parameters" in text
    assert "totals: 200 → 300 (+100)" in text


@pytest.mark.long
def test_the_commands_take_list_check_compare_and_restore(run: RunDirectory, tmp_path: Path) -> None:
    def penstock(*arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["savepoint", *map(str, arguments)])
        assert done.exit_code == code, done.output
        return done.output

    assert "no savepoints" in penstock("list", run.path)
    kept = tmp_path / "kept"
    assert "after epoch 2" in penstock("create", run.path, "--to", kept)
    penstock("create", run.path)
    (listed,) = savepoints_of(run.path)
    assert isinstance(listed, Savepoint)
    assert str(listed.path) in penstock("list", run.path)
    assert "as they were written" in penstock("verify", kept)
    assert "no difference" in penstock("diff", kept, listed.path)
    assert "restored" in penstock("restore", kept, "--into", tmp_path / "back")
    assert "goes on" in penstock("restore", kept, "--into", tmp_path / "back")
    damage(kept / "files" / "versions" / "000001.program", "flip")
    assert "versions/000001.program is damaged" in penstock("verify", kept, code=1)
