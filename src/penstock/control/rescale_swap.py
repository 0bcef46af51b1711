"""The end of a rescale: put the new checkpoint in the place of the old one, whatever dies when.

The new checkpoint is made in a folder of its own. Only when it is complete is that written down; from then on
every start of a run finishes the exchange, and before that every start forgets about it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock.connect.sealed import read_sealed, write_sealed
from penstock.control.run_directory import RunDirectory
from penstock.control.way_back import way_back


def workplace(run: RunDirectory) -> Path:
    """Where the new checkpoint is made."""
    return run.path / "rescaling"


def declare_ready(run: RunDirectory, *, hops: int, partitions: int) -> None:
    """The new checkpoint is complete: there is no way back."""
    write_sealed(_ready(run), {"hops": hops, "partitions": partitions})


def finish_rescale(run: RunDirectory) -> None:
    """Finish or forget a rescale that was broken off. Changes nothing where there was none."""
    place = workplace(run)
    if not place.exists():
        return
    if _ready(run).exists():
        shape = read_sealed(_ready(run), next_step=way_back(run.path))
        if (place / "checkpoint").exists():
            if run.checkpoint.exists():
                run.checkpoint.rename(place / "before")
            (place / "checkpoint").rename(run.checkpoint)
        run.write_fabric(**shape)
        _ready(run).unlink()  # only now: what follows is clearing up
    shutil.rmtree(place)


def _ready(run: RunDirectory) -> Path:
    return workplace(run) / "ready.json"
