"""Throughput on two cores over everything pinned to one core."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.bench.harness import Settings
from penstock.bench.workload import check_totals, counted, rate, run_through

KEYS = 100_000
EPOCH_ROWS = 24_000_000
EPOCHS = 7
WARM_UP = 2


def run(settings: Settings) -> dict[str, float]:
    """The same topology twice, in sessions of their own: `local[2]` on all cores, `local[1]` on one."""
    two = _in_fresh_process(settings.directory / "two", cores=2)
    one = _in_fresh_process(settings.directory / "one", cores=1)
    return {"events_per_s_2": two, "events_per_s_1": one, "ratio_2_to_1": two / one}


def _in_fresh_process(directory: Path, *, cores: int) -> float:
    """A child process: the pinning reaches the JVM and every worker, and ends with it."""
    directory.mkdir()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
            os.write(writer, str(_rate(directory, cores)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return float(text)


def _rate(directory: Path, cores: int) -> float:
    rows = EPOCH_ROWS * EPOCHS
    topology = counted(directory, distinct=KEYS, rows=rows, rows_per_epoch=EPOCH_ROWS)
    epochs = run_through(topology, directory, master=f"local[{cores}]")
    check_totals(directory, rows)
    return rate(epochs, warm_up=WARM_UP)
