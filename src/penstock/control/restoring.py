"""Make a run directory from a savepoint, here or on another machine.

The restored run has an id of its own: sinks know the epochs of a run by its id, and a run that goes back in
time must not find its epochs done by the one that it was taken from. What that one wrote after the savepoint
stays in the tables, so it is told which of them hold later epochs.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from penstock.connect.private import make_private
from penstock.connect.sink import SinkContext
from penstock.control.checkpoint import rebase, settle
from penstock.control.run_directory import RunDirectory
from penstock.control.savepoint_files import Savepoint, copy_with_digest, difference
from penstock.errors import PenstockError, RunDirectoryMismatch, SavepointBroken, VersionNotLoadable

_OURS = "restored_from"


def restore(
    savepoint: Savepoint, into: Path, *, prepare: Callable[[RunDirectory], None] | None = None
) -> RunDirectory:
    """Copy a savepoint to a new run directory, entirely or not at all; every file is checked on the way.

    ``prepare`` may change the directory before it is put in its place.
    """
    into = into.resolve()
    _require_free(into)
    scratch = RunDirectory(into.with_name(f".{into.name}.restoring-{uuid.uuid4().hex}"))
    try:
        make_private(scratch.path)
        _copy(savepoint, scratch.path)
        settle(scratch.checkpoint)
        card = {"topology": savepoint.manifest.topology, "run_id": uuid.uuid4().hex}
        scratch.write_card({**card, _OURS: savepoint.manifest.identity})
        # Whoever starts the restored run says what it shall be: an app that writes to another table, perhaps.
        scratch.make_current(scratch.current())
        if prepare is not None:
            prepare(scratch)
        rebase(scratch.checkpoint, at=RunDirectory(into).checkpoint)
        scratch.path.replace(into)
    finally:
        shutil.rmtree(scratch.path, ignore_errors=True)
    return RunDirectory(into)


def is_restored(directory: Path, savepoint: Savepoint) -> bool:
    """Whether a run directory was made from this savepoint: then the run that began there goes on."""
    try:
        card = RunDirectory(directory).read_card()
    except FileNotFoundError:
        return False
    return card.get(_OURS) == savepoint.manifest.identity


def later_epochs(savepoint: Savepoint) -> dict[str, str]:
    """By sink, what it holds of epochs after the savepoint: a restored run writes those again."""
    manifest, files = savepoint.manifest, savepoint.files
    try:
        program = files.load(files.current())
    except VersionNotLoadable as error:
        return _not_asked(files, str(error))
    found = {}
    for name, spec in program.sinks.items():
        schema = program.input_schema(program.graph[name].inputs[0])
        context = SinkContext(name, manifest.epoch, manifest.run_id, "restore", files.path, schema)
        try:
            newest = spec.sink.newest_epoch(context)
        except PenstockError as error:
            found[name] = f"{spec.sink.describe()} cannot be asked ({error})"
            continue
        if newest is not None and newest > manifest.epoch:
            found[name] = f"{spec.sink.describe()} holds epochs {manifest.epoch + 1} to {newest}"
    return found


def _not_asked(files: RunDirectory, why: str) -> dict[str, str]:
    """The sinks of a version that this Python cannot load."""
    record = files.version_files.record(files.current())
    sinks = [node for node in record.nodes if node.kind == "sink"] if record else []
    return {sink.name: f"{sink.what} cannot be asked ({why})" for sink in sinks}


def _require_free(into: Path) -> None:
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise RunDirectoryMismatch(
            directory=into, what="is there already", next_step="restore into another directory"
        )


def _copy(savepoint: Savepoint, target: Path) -> None:
    for name, expected in savepoint.manifest.files.items():
        try:
            got = copy_with_digest(savepoint.files.path / name, target / name)
            fault = difference(got, expected)
        except OSError as error:
            fault = f"cannot be copied ({error.strerror})"
        if fault is not None:
            step = "restore another savepoint (penstock savepoint list DIR)"
            raise SavepointBroken(savepoint=savepoint.path, what=f"{name} {fault}", next_step=step)
