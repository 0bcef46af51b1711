"""What to do when a file of a run directory is damaged."""

from __future__ import annotations

from pathlib import Path

SAVEPOINTS = "savepoints"
MANIFEST = "savepoint.json"


def way_back(directory: Path) -> str:
    """The newest savepoint of a run and how to go back to it, or what else there is."""
    found = sorted((directory / SAVEPOINTS).glob(f"[!.]*/{MANIFEST}"))
    if found:
        return f"go back to a savepoint: penstock savepoint restore {found[-1].parent} --into NEW_DIR"
    return "restore the file from a copy, or begin anew in another directory (--dir); there is no savepoint"
