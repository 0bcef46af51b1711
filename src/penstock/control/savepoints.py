"""Take savepoints, also of a running topology, and list them.

A run is held between two epochs only while its files are linked into a folder beside them; Spark writes its
files once and never changes them. The links are copied when the run has gone on, so that a savepoint shares
nothing with the run that damage to one could carry to the other.
"""

from __future__ import annotations

import datetime as dt
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.connect.file_pieces import EXPANDED
from penstock.connect.private import make_private
from penstock.control.checkpoint import belongs, last_committed, read_offset, require_whole
from penstock.control.holding import HoldLost, hold
from penstock.control.linking import files_below, link, link_tree
from penstock.control.progress import Progress
from penstock.control.rebuilding import stored_graph
from penstock.control.run_directory import RunDirectory
from penstock.control.run_reader import RunReader
from penstock.control.savepoint_files import (
    FILES,
    Manifest,
    Savepoint,
    copy_with_digest,
    open_savepoint,
    write_manifest,
)
from penstock.control.way_back import MANIFEST, SAVEPOINTS
from penstock.errors import PenstockError, RunDirectoryInUse, SavepointBroken, SavepointFailed
from penstock.topology.describe import describe

HOLD_LIMIT_S = 30.0
"""A run goes on after this long, whatever has become of who wanted the savepoint."""
_LOOK_AT_LOCK_EVERY_S = 1.0
_LEFTOVER_S = 24 * 3600


def create(directory: Path, *, to: Path | None = None, timeout_s: float = 120.0) -> Savepoint:
    """Save what a run is, at an epoch boundary. It may be running; then it is held for a moment."""
    run = RunDirectory(directory.resolve())
    try:
        run.read_card()
    except FileNotFoundError:
        raise _failed(run, "there is no run.json in it", "name the directory of a run (--dir)") from None
    _clear_leftovers(run.path / SAVEPOINTS)
    staging = run.path / SAVEPOINTS / f".staging-{uuid.uuid4().hex}"
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                moment = _stage(run, staging, deadline)
                break
            except HoldLost:
                shutil.rmtree(staging)
                if time.monotonic() > deadline:
                    raise _failed(run, "the run went on meanwhile", "try again") from None
        return _keep(run, staging, moment, to)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def savepoints_of(directory: Path) -> list[Savepoint | SavepointBroken]:
    """The savepoints that lie with a run, oldest first; of a damaged one what is wrong with it."""
    found: list[Savepoint | SavepointBroken] = []
    for manifest in sorted((directory / SAVEPOINTS).glob(f"[!.]*/{MANIFEST}")):
        try:
            found.append(open_savepoint(manifest.parent))
        except SavepointBroken as error:
            found.append(error)
    return found


@dataclass(frozen=True, slots=True)
class _Moment:
    """What was staged."""

    epoch: int
    pause_ms: float


def _stage(run: RunDirectory, staging: Path, deadline: float) -> _Moment:
    """Link the run's files as they are at an epoch boundary."""
    with _at_rest(run, deadline) as require:
        began = time.perf_counter()
        epoch = last_committed(run.checkpoint)
        if epoch is None:
            raise _failed(run, "no epoch is committed yet", "wait for the first one")
        make_private(staging)
        for name in ("run.json", "fabric.json", "current", "observed.json"):
            link(run.path / name, staging / name)
        # Versions first: the one that is current was there before it was. Some state may be between two hops.
        for folder in ("versions", "checkpoint", run.moving.name):
            link_tree(run.path / folder, staging / folder)
        if run.planners.exists():
            again = shutil.ignore_patterns(EXPANDED)  # what is made again from the files
            shutil.copytree(run.planners, staging / "planners", ignore=again)  # these are appended to
        require()
        pause_ms = (time.perf_counter() - began) * 1000 if require is not _nothing_to_lose else 0.0
    return _Moment(epoch, pause_ms)


@contextmanager
def _at_rest(run: RunDirectory, deadline: float) -> Iterator[Callable[[], None]]:
    """Keep the run between two epochs: by its lock if it does not run, by a hold if it does."""
    looked = 0.0

    def stopped_or_late() -> bool:
        nonlocal looked
        if time.monotonic() > deadline:
            return True
        if time.monotonic() - looked < _LOOK_AT_LOCK_EVERY_S:
            return False
        looked = time.monotonic()
        return not _is_running(run)

    with hold(run, limit_s=HOLD_LIMIT_S, give_up=stopped_or_late) as held:
        if held is not None:
            yield held.require
            return
    if time.monotonic() > deadline:
        raise _failed(run, "the run did not come to an epoch boundary in time", "wait longer, with --timeout")
    with run.lock():
        yield _nothing_to_lose


def _nothing_to_lose() -> None:
    """A run that does not run stays as it is."""


def _is_running(run: RunDirectory) -> bool:
    try:
        run.lock().close()
    except RunDirectoryInUse:
        return True
    return False


def _clear_leftovers(folder: Path) -> None:
    """Remove what savepoints that were broken off have left behind."""
    for path in folder.glob(".*"):
        if time.time() - path.stat().st_mtime > _LEFTOVER_S:
            shutil.rmtree(path, ignore_errors=True)


def _keep(run: RunDirectory, staging: Path, moment: _Moment, to: Path | None) -> Savepoint:
    """Copy what was staged, with the digest of each file."""
    staged = RunDirectory(staging)
    taken_ns = time.time_ns()
    at = dt.datetime.fromtimestamp(taken_ns / 1e9, dt.UTC)
    final = (to or run.path / SAVEPOINTS / f"{at:%Y%m%dT%H%M%S%fZ}-epoch-{moment.epoch}").resolve()
    if final.exists() and any(final.iterdir()):
        raise _failed(run, f"{final} is there already", "name another folder with --to")
    scratch = final.with_name(f".{final.name}.{uuid.uuid4().hex}")
    progress = _progress_at(run, moment.epoch)
    if progress is not None:
        staged.append_progress(progress)
    try:
        make_private(scratch)
        files = {}
        for name in files_below(staging):
            inside = name.relative_to("checkpoint").as_posix() if name.parts[0] == "checkpoint" else None
            if inside is None or belongs(inside, moment.epoch):
                if inside is not None:  # what is damaged already is not worth saving
                    require_whole(staging / name, run.checkpoint / inside, run.path)
                files[name.as_posix()] = copy_with_digest(staging / name, scratch / FILES / name)
        write_manifest(scratch, _manifest(staged, moment, progress, taken_ns, files))
        final.parent.mkdir(parents=True, exist_ok=True)
        scratch.replace(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return open_savepoint(final)


def _progress_at(run: RunDirectory, epoch: int) -> Progress | None:
    """How the epoch went, or the last one before it that the log tells of."""
    told = [progress for progress in RunReader(run).history() if progress.epoch <= epoch]
    return max(told, key=lambda progress: progress.epoch, default=None)


def _manifest(
    staged: RunDirectory,
    moment: _Moment,
    progress: Progress | None,
    taken_ns: int,
    files: dict[str, tuple[int, str]],
) -> Manifest:
    card, fabric = staged.read_card(), staged.fabric() or {"hops": 0, "partitions": 1}
    version = int(read_offset(staged.checkpoint, moment.epoch)["version"])
    graph = stored_graph(staged, version)
    nodes = progress.nodes if progress else ()
    return Manifest(
        topology=graph.name,
        run_id=str(card["run_id"]),
        epoch=moment.epoch,
        version=version,
        taken_ns=taken_ns,
        **fabric,
        description=describe(graph),
        state_bytes={node.node: node.state_bytes for node in nodes if node.state_bytes},
        pause_ms=round(moment.pause_ms, 3),
        files=files,
    )


def _failed(run: RunDirectory, what: str, next_step: str) -> PenstockError:
    return SavepointFailed(directory=run.path, what=what, next_step=next_step)
