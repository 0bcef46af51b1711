"""A topology that a test kills: says each committed epoch on a line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import penstock as ps
from tests.spark.test_epochs import killed_topology


def say_epochs(handle: Any) -> None:
    """Print a line for each committed epoch until the run ends."""
    said: set[int] = set()
    ended = False
    while not ended:
        ended = handle.poll(0.1)
        for progress in handle.history():
            if progress.epoch not in said:
                said.add(progress.epoch)
                print("epoch", progress.epoch, flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with ps.start(
        killed_topology(folder), directory=folder / "run", master="local[2]", until="finished"
    ) as handle:
        say_epochs(handle)
