"""An epoch in which the user's code, a source or a sink failed, and the version that mends it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.control.changes import ChangePlan
from penstock.control.checkpoint import last_committed, last_planned, plan_again, read_offset
from penstock.control.moves import moves_between
from penstock.control.rebuilding import stored_program
from penstock.control.run_directory import Failed, RunDirectory
from penstock.errors import (
    BadChange,
    PenstockError,
    SecretUnusable,
    SinkRefused,
    SinkUnavailable,
    SourceUnavailable,
    UserCodeError,
)
from penstock.plan.program import Program
from penstock.topology.describe import diff


def note_failure(directory: RunDirectory, error: PenstockError) -> None:
    """Remember an epoch that the user's code, a source or a sink has failed."""
    begun = last_planned(directory.checkpoint)
    if begun is None:
        return
    if isinstance(error, UserCodeError | SourceUnavailable):
        directory.note_failed(begun, "code")
    elif isinstance(error, SecretUnusable | SinkRefused | SinkUnavailable):
        directory.note_failed(begun, "sink")


def let_mended_code_run(directory: RunDirectory, change: ChangePlan) -> None:
    """Run the epoch that failed under a changed version, which would otherwise fail it again.

    An epoch that is repeated runs the version it ran before, since some of its results may be out already.
    If code or a source failed, none are: sinks commit when all of an epoch's code has run. If a sink did,
    others may have theirs, so all that makes results must stay as it was. The input stays the same in either
    case, so the sources must.
    """
    found = failed_epoch(directory)
    if found is None or found.version == change.version:
        return
    planned = stored_program(directory, found.version, change.program)
    if _input(planned) != _input(change.program) or moves_between(planned, change.program).moved:
        return  # its input would mean something else, or its state is not where the change looks for it
    if found.what == "code" or _makes_the_same(planned, change.program):
        plan_again(directory.checkpoint, found.epoch, change.version)


@dataclass(frozen=True, slots=True)
class FailedEpoch:
    """An epoch that was begun and has failed since."""

    epoch: int
    version: int
    """The version that it runs, and would be repeated under."""
    what: Failed


def failed_epoch(directory: RunDirectory) -> FailedEpoch | None:
    """Return the epoch that failed and is repeated next; None if there is none."""
    begun, done = last_planned(directory.checkpoint), last_committed(directory.checkpoint)
    failed = directory.read_failed()
    if begun is None or begun == done or failed is None or failed[0] != begun:
        return None
    return FailedEpoch(begun, int(read_offset(directory.checkpoint, begun)["version"]), failed[1])


def version_to_change(directory: RunDirectory, current: int, program: Program) -> int:
    """Return the version that a new topology is compared with: the current one, as a rule.

    If an epoch failed and state waits for its end to move to the current version, it is the epoch's version:
    only a topology that leaves all state in its place can mend the epoch.
    """
    found = failed_epoch(directory)
    if found is None or found.version == current:
        return current
    before, after = (stored_program(directory, version, program) for version in (found.version, current))
    return found.version if moves_between(before, after).moved else current


def require_no_moves(directory: RunDirectory, change: ChangePlan) -> None:
    """Raise BadChange for a change that moves state while a failed epoch is to be repeated.

    State moves in the last epoch of the old version, and that is the epoch that cannot be run.
    """
    found = failed_epoch(directory)
    if found is not None and change.moved:
        names = ", ".join(f"'{name}'" for name, _, _ in change.moved)
        raise BadChange(
            topology=change.program.graph.name,
            reason=f"epoch {found.epoch} failed and is repeated first; state of {names} would change its hop",
            next_step="mend what failed and start it; make the other changes when the epoch is committed",
        )


def _input(program: Program) -> set[str]:
    """Return the sources, by name and generation: an offset has a meaning for these alone."""
    return {program.source_key(name) for name in program.sources}


def _makes_the_same(planned: Program, mended: Program) -> bool:
    """Whether all but the sinks is as it was."""
    difference = diff(planned.graph, mended.graph)
    changed = {*difference.added, *difference.removed, *dict(difference.changed)}
    return changed <= {*planned.sinks, *mended.sinks}
