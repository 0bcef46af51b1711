"""Change a run that others may be changing too: each change names the version that it was planned on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping

from penstock.control.changes import ChangePlan, plan_change, require_applicable
from penstock.control.mending import require_no_moves
from penstock.control.run_directory import Origin, RunDirectory
from penstock.control.source_changes import Decision
from penstock.errors import ChangedMeanwhile
from penstock.plan.program import Program


def change_version(
    directory: RunDirectory,
    desired: Program,
    *,
    planned_on: int,
    hops: int,
    allow_state_loss: bool = False,
    sources: Mapping[str, Decision] | None = None,
) -> ChangePlan:
    """Plan a change of version ``planned_on`` and make it current. Raises ChangedMeanwhile if another came.

    Changers exclude each other for the moment in which they look, plan and write. A process that dies in that
    moment leaves a version that is not current; nobody looks at it, and its number is not used again.
    """
    with directory.changing():
        require_current(directory, planned_on)
        plan = plan_change(
            directory.load(planned_on),
            desired,
            version=directory.next_version(),
            hops=hops,
            sources=sources,
        )
        require_applicable(plan, allow_state_loss=allow_state_loss)
        require_no_moves(directory, plan)
        directory.store(plan.version, plan.program)
        made_by = f"a handle in process {os.getpid()} on {platform.node()}"
        directory.make_current(plan.version, Origin(made_by, time.time_ns()))
    return plan


def require_current(directory: RunDirectory, planned_on: int) -> None:
    """Raise ChangedMeanwhile unless a version is still the current one."""
    current = directory.current()
    if current == planned_on:
        return
    origin = directory.origin()
    by = f", made by {origin.made_by}" if origin else ""
    raise ChangedMeanwhile(
        directory=directory.path,
        what=f"the change was planned on version {planned_on}, but the run is at version {current} now{by}",
        next_step=f"look at what has changed, then plan again on version {current} (planned_on={current})",
    )
