"""What short epochs cost: throughput with epochs of about one second over that with epochs of about ten.

SAND's figure 9 is flat: an epoch is its checkpoint, so the price of an epoch must not show.
"""

from __future__ import annotations

from pathlib import Path

from penstock.bench.harness import Settings
from penstock.bench.workload import counted, run_through

KEYS = 100_000
FIRST_GUESS_ROWS = 2_000_000
SHORT_S, LONG_S = 1.0, 10.0
MEASURED_S = 20.0
SLICES = 8
"""Few, as on any small machine where epochs are to be short: each costs something in every epoch."""


def run(settings: Settings) -> dict[str, float]:
    """Find how many events make an epoch of one second, then measure both; short epochs before and after."""
    probe = _events_per_s(settings.directory / "probe", FIRST_GUESS_ROWS, epochs=10)
    rows = int(probe * SHORT_S)
    again = int(_events_per_s(settings.directory / "again", rows, epochs=8) * SHORT_S)
    short = round(MEASURED_S / SHORT_S)
    before = _events_per_s(settings.directory / "before", again, epochs=short)
    long = _events_per_s(
        settings.directory / "long", int(again * LONG_S), epochs=round(MEASURED_S / LONG_S) + 1
    )
    after = _events_per_s(settings.directory / "after", again, epochs=short)
    return {
        "ratio_1s_to_10s": (before + after) / 2 / long,
        "events_per_s_1s": (before + after) / 2,
        "events_per_s_10s": long,
        "rows_per_epoch_1s": float(again),
    }


def _events_per_s(directory: Path, rows_per_epoch: int, *, epochs: int) -> float:
    """Of all epochs but the first, which has to open its state."""
    rows = rows_per_epoch * epochs
    top = counted(directory, distinct=KEYS, rows=rows, rows_per_epoch=rows_per_epoch, parallelism=SLICES)
    spans = [(count, seconds) for count, seconds in run_through(top, directory) if count][1:]
    return sum(count for count, _ in spans) / sum(seconds for _, seconds in spans)
