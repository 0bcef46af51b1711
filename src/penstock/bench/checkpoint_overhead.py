"""What short epochs cost: throughput with epochs of about one second over that with epochs of about ten.

SAND's figure 9 is flat: an epoch is its checkpoint, so the price of an epoch must not show.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from penstock.bench.harness import Settings
from penstock.bench.workload import counted, run_through

KEYS = 100_000
PROBES = {2_000_000: 12, 12_000_000: 8}
"""Events in an epoch, and epochs, to learn how long an epoch takes."""
SHORT_S, LONG_S = 1.0, 10.0
MEASURED_S = 20.0
SLICES = 8
"""Few, as on any small machine where epochs are to be short: each costs something in every epoch."""

Spans = list[tuple[int, float]]


def run(settings: Settings) -> dict[str, float]:
    """Find how many events make epochs of one and of ten seconds, then measure; short ones at both ends."""
    probes = {
        rows: median(
            seconds for _, seconds in _epochs(settings.directory / f"{rows}", rows, count)[count // 2 :]
        )
        for rows, count in PROBES.items()
    }
    short, guess = (rows_for(seconds, probes) for seconds in (SHORT_S, LONG_S))
    count = round(MEASURED_S / SHORT_S)
    # Events of long epochs take longer each, and those of a cold start too: what was guessed is tried.
    tried = median(seconds for _, seconds in _epochs(settings.directory / "tried", guess, 2))
    long = round(guess * LONG_S / tried)
    before = _epochs(settings.directory / "before", short, count)
    at_length = _epochs(settings.directory / "long", long, round(MEASURED_S / LONG_S) + 1)
    after = _epochs(settings.directory / "after", short, count)
    rate_short, rate_long = _events_per_s(before + after), _events_per_s(at_length)
    return {
        "ratio_1s_to_10s": rate_short / rate_long,
        "events_per_s_1s": rate_short,
        "events_per_s_10s": rate_long,
        "short_epoch_s": median(seconds for _, seconds in before + after),
        "long_epoch_s": median(seconds for _, seconds in at_length),
    }


def rows_for(seconds: float, probes: dict[int, float]) -> int:
    """How many events make an epoch so long, if each adds the same to what an epoch costs anyway.

    >>> rows_for(10.0, {1_000: 1.5, 2_000: 2.0})
    18000
    """
    (few, quick), (many, slow) = sorted(probes.items())
    per_event = max((slow - quick) / (many - few), slow / many / 10)  # a machine that was busy once may lie
    return max(few, few + round((seconds - quick) / per_event))


def _epochs(directory: Path, rows_per_epoch: int, epochs: int) -> Spans:
    """Events and seconds of all epochs but the first, which has to open its state."""
    rows = rows_per_epoch * epochs
    top = counted(directory, distinct=KEYS, rows=rows, rows_per_epoch=rows_per_epoch, parallelism=SLICES)
    return [(count, seconds) for count, seconds in run_through(top, directory) if count][1:]


def _events_per_s(epochs: Spans) -> float:
    return sum(count for count, _ in epochs) / sum(seconds for _, seconds in epochs)
