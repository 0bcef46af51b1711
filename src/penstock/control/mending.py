"""An epoch in which the user's code failed, and the version that mends it."""

from __future__ import annotations

from penstock.control.changes import ChangePlan
from penstock.control.checkpoint import last_committed, last_planned, plan_again, read_offset
from penstock.control.run_directory import RunDirectory
from penstock.errors import PenstockError, UserCodeError


def note_failure(directory: RunDirectory, error: PenstockError) -> None:
    """Remember an epoch that the user's code has failed."""
    begun = last_planned(directory.checkpoint)
    if isinstance(error, UserCodeError) and begun is not None:
        directory.note_failed(begun)


def let_mended_code_run(directory: RunDirectory, change: ChangePlan) -> None:
    """Run the epoch that failed under a changed version, which would otherwise fail it again.

    An epoch that is repeated runs the version it ran before, since some of its results may be out already.
    This one has none: sinks commit when all of an epoch's code has run. Its input stays the same, so the
    sources must.
    """
    begun, done = last_planned(directory.checkpoint), last_committed(directory.checkpoint)
    if begun is None or begun == done or begun != directory.read_failed():
        return
    planned = directory.load(int(read_offset(directory.checkpoint, begun)["version"]))
    if planned.sources.keys() == change.program.sources.keys():
        plan_again(directory.checkpoint, begun, change.version)
