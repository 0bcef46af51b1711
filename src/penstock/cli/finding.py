"""The run that a command is about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_USUAL = Path(".penstock")


def find_run(named: Path) -> Path:
    """A run by its directory, or by the name of its topology if it is where runs usually are."""
    for directory in (named, _USUAL / named):
        if (directory / "run.json").exists():
            return directory
    known = sorted(path.parent.name for path in _USUAL.glob("*/run.json"))
    here = f"; here are: {', '.join(known)}" if known else ""
    allowed = f"its directory (--dir), or the name of its topology if it is in {_USUAL}"
    raise typer.BadParameter(f"{named} is no run: give {allowed}{here}")


Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        callback=find_run,
        help="The directory of a run, or its topology's name if in .penstock.",
    ),
]
