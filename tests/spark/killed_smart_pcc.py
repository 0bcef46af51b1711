"""Smart policy and charging control that a test kills: says each committed epoch on a line."""

from __future__ import annotations

import sys
from pathlib import Path

import penstock as ps
from penstock.apps import smart_pcc
from tests.spark.killed_app import say_epochs

SMALL = {"subscribers": 300, "rows": 44_000, "seed": 5}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    top = smart_pcc.topology(**SMALL, rate=None, rows_per_epoch=8_000, directory=folder / "out")
    with ps.start(top, directory=folder / "run", master="local[2]", until="finished") as handle:
        say_epochs(handle)
