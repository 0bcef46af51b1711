"""What short epochs cost: throughput with epochs of about one second over that with epochs of about ten.

SAND's figure 9 is flat: an epoch is its checkpoint, so the price of an epoch must not show.
"""

from __future__ import annotations

from itertools import count
from statistics import median

from penstock.bench.harness import Settings
from penstock.bench.workload import counted, run_through

KEYS = 100_000
PROBES = {4_000_000: 8, 16_000_000: 6}
"""Events in an epoch, and epochs, to learn how long an epoch takes."""
SHORT_S, LONG_S = 1.0, 10.0
MEASURED_S = 20.0
ROUNDS = 3
"""Short and long epochs take turns: a machine that others use too is not as fast at all times."""
TRIES, NEAR_RATIO = 3, 0.1
SLICES = 8
"""Few, as on any small machine where epochs are to be short: each costs something in every epoch."""

Spans = list[tuple[int, float]]


def run(settings: Settings) -> dict[str, float]:
    """Find how many events make epochs of one and of ten seconds, then measure both in turns."""
    epochs = _Epochs(settings)
    probes = {rows: _length_s(epochs(rows, number)[number // 2 :]) for rows, number in PROBES.items()}
    rows = {target: _sized(epochs, target, rows_for(target, probes)) for target in (SHORT_S, LONG_S)}
    spans: dict[float, Spans] = {target: [] for target in rows}
    for _ in range(ROUNDS):
        for target, per_epoch in rows.items():
            spans[target] += epochs(per_epoch, round(MEASURED_S / target) + 1)
    rate_short, rate_long = (_events_per_s(spans[target]) for target in (SHORT_S, LONG_S))
    return {
        "ratio_1s_to_10s": rate_short / rate_long,
        "events_per_s_1s": rate_short,
        "events_per_s_10s": rate_long,
        "short_epoch_s": _length_s(spans[SHORT_S]),
        "long_epoch_s": _length_s(spans[LONG_S]),
    }


def rows_for(seconds: float, probes: dict[int, float]) -> int:
    """How many events make an epoch so long, if each adds the same to what an epoch costs anyway.

    >>> rows_for(10.0, {1_000: 1.5, 2_000: 2.0})
    18000
    """
    (few, quick), (many, slow) = sorted(probes.items())
    per_event = max((slow - quick) / (many - few), slow / many / 10)  # a machine that was busy once may lie
    return max(few, few + round((seconds - quick) / per_event))


class _Epochs:
    """Runs so many epochs of so many events, each time in a run of its own."""

    def __init__(self, settings: Settings) -> None:
        self._folders = (settings.directory / str(number) for number in count())

    def __call__(self, rows_per_epoch: int, epochs: int) -> Spans:
        """Events and seconds of all epochs but the first, which has to open its state."""
        folder, rows = next(self._folders), rows_per_epoch * epochs
        top = counted(folder, distinct=KEYS, rows=rows, rows_per_epoch=rows_per_epoch, parallelism=SLICES)
        return [(found, seconds) for found, seconds in run_through(top, folder) if found][1:]


def _sized(epochs: _Epochs, target_s: float, rows: int) -> int:
    """So many events that an epoch takes about so long: what is guessed is tried, and mended."""
    for _ in range(TRIES):
        took = _length_s(epochs(rows, 1 + max(1, round(5 / target_s))))
        if abs(took / target_s - 1) <= NEAR_RATIO:
            break
        rows = round(rows * target_s / took)
    return rows


def _length_s(epochs: Spans) -> float:
    return median(seconds for _, seconds in epochs)


def _events_per_s(epochs: Spans) -> float:
    return sum(found for found, _ in epochs) / sum(seconds for _, seconds in epochs)
