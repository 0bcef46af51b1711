"""Whether a failure comes from a damaged file of the state.

Spark checks its files when it reads them, but what reaches us is seldom the name of the file: a worker that
cannot get at its state, a store that "could not be loaded". So the files themselves are asked.
"""

from __future__ import annotations

import re

from penstock.control.checkpoint import require_whole
from penstock.control.run_directory import RunDirectory
from penstock.errors import RunDirectoryBroken

# Checking every file takes a while on a large state: not after each failure.
_ABOUT_STATE = re.compile(r"STATE_STORE|StateStore|state store|RocksDB|Checksum|EOFException")


def damage_in(message: str, directory: RunDirectory) -> RunDirectoryBroken | None:
    """The damaged file that may be behind a failure; the newest one if there are several."""
    if not _ABOUT_STATE.search(message):
        return None
    # Names with a dot in front are of checksums, and of files that a task has not finished.
    files = [path for path in (directory.checkpoint / "state").rglob("[!.]*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            require_whole(path, path, directory.path)
        except RunDirectoryBroken as error:
            return error
    return None
