"""An application tracker that a test kills: says each committed epoch on a line."""

from __future__ import annotations

import sys
from pathlib import Path

import penstock as ps
from penstock.apps import app_tracker
from tests.spark.killed_app import say_epochs

if __name__ == "__main__":
    captures, folder = map(Path, sys.argv[1:])
    top = app_tracker.topology(captures, directory=folder / "out", bytes_per_epoch=400_000)
    with ps.start(top, directory=folder / "run", master="local[2]", until="finished") as handle:
        say_epochs(handle)
