"""What the network benchmarks share: traces that are there as several files, and the time of each epoch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.bench.workload import run_through
from penstock.topology.stream import Topology


def repeated(folder: Path, times: int, write: Callable[[Path], Any]) -> Any:
    """A folder with one trace under several names, each a file of its own; gives what it holds."""
    folder.mkdir()
    first = folder / "00.pcap"
    truth = write(first)
    for number in range(1, times):
        os.link(first, folder / f"{number:02d}.pcap")
    return truth


def seconds_per_epoch(topology: Topology, directory: Path, *, warm_up: int) -> float:
    """The mean time of the epochs after the first ones; each takes one file of the trace."""
    epochs = [seconds for events, seconds in run_through(topology, directory) if events]
    return sum(epochs[warm_up:]) / len(epochs[warm_up:])
