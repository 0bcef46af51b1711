"""``python begin.py APP RUN``: run the shop for some epochs; the last one is begun and not committed."""

from __future__ import annotations

import sys
from pathlib import Path

import penstock as ps
from penstock.cli.loading import load

LAST_EPOCH = 3

if __name__ == "__main__":
    run = Path(sys.argv[2])
    with ps.start(
        load(sys.argv[1]), directory=run, master="local[2]", partitions=2, until="finished"
    ) as handle:
        while (progress := handle.progress()) is None or progress.epoch < LAST_EPOCH:
            handle.poll(0.05)
    commits = run / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
