"""Errors that a run may end with for a while, because of what was done to it; any other one is wrong."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from penstock.errors import PenstockError


@dataclass(frozen=True, slots=True)
class Ending:
    """An error that is right where a scenario expects it."""

    condition: str
    says: str = ""
    """Words that tell its cause from others of the same condition."""

    def fits(self, error: PenstockError) -> bool:
        return error.condition == self.condition and self.says in str(error)


DEATH = Ending("STREAM_FAILED")
"""A process of the query died, and nobody supervises the query."""
LEFTOVER = Ending("STREAM_FAILED", "Broken pipe")
"""An earlier schedule in the same JVM killed a worker that was idle, and this one was given it."""
DRIVER_DEATH = Ending("SPARK_GONE", "its driver has died")
"""The driver died, and nobody supervises it."""
DAMAGE = Ending("RUN_DIRECTORY_BROKEN")
"""A file of the run is not what was written; which one is looked at too."""
NO_ROOM = tuple(
    Ending(name, os.strerror(errno.ENOSPC))
    for name in ("STREAM_FAILED", "SINK_UNAVAILABLE", "SOURCE_UNAVAILABLE")
)
NOT_RESCALED = Ending("SAVEPOINT_FAILED", "is not finished")
"""A death has left an epoch that must be finished first."""
NOT_SAVED = (
    Ending("SAVEPOINT_FAILED", "no epoch is committed yet"),
    Ending("SAVEPOINT_FAILED", "did not come to an epoch boundary in time"),
)
"""The run was dying while it was to be saved."""
