"""What short epochs cost: throughput with epochs of about one second over that with epochs of about ten.

SAND's figure 9 is flat: an epoch is its checkpoint, so the price of an epoch must not show. Measured is a run
that lasts: the JVM compiles what it uses in its first few hundred epochs, which are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from statistics import median

from penstock.bench.harness import Settings
from penstock.bench.workload import counted, run_through

KEYS = 100_000
WARM_UP = (100_000, 250)
"""Events in an epoch, and epochs, until the JVM has compiled what every epoch uses."""
PROBES = {4_000_000: 8, 16_000_000: 6}
"""The same, to learn how long an epoch takes."""
SHORT_S, LONG_S = 1.0, 10.0
BEGINNING_S, MEASURED_S = 10.0, 20.0
"""A run's first seconds, which are not counted, and those that are."""
ROUNDS, MOST_ROUNDS = 3, 6
"""Short and long epochs take turns: a machine that others use too is not as fast at all times."""
NEAR_RATIO = 0.1
"""By so much an epoch may be shorter or longer than it should. A round that has others is not counted."""
SLICES = 8
"""Few, as on any small machine where epochs are to be short: each costs something in every epoch."""

Spans = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Round:
    """Short and long epochs that were measured one after the other: events and seconds of each."""

    short: Spans
    long: Spans

    def is_near(self) -> bool:
        """Whether its epochs were as long as they should be."""
        lengths = (length_s(self.short) / SHORT_S, length_s(self.long) / LONG_S)
        return all(abs(ratio - 1) <= NEAR_RATIO for ratio in lengths)


def run(settings: Settings) -> dict[str, float]:
    """Find how many events make epochs of one and of ten seconds, and measure both in turns."""
    epochs = _Epochs(settings)
    epochs(*WARM_UP)
    probes = {rows: length_s(epochs(rows, number)[number // 2 :]) for rows, number in PROBES.items()}
    rows = {target: rows_for(target, probes) for target in (SHORT_S, LONG_S)}
    rounds: list[Round] = []
    while len(rounds) < MOST_ROUNDS and sum(done.is_near() for done in rounds) < ROUNDS:
        turns = (SHORT_S, LONG_S) if len(rounds) % 2 else (LONG_S, SHORT_S)
        spans = {target: epochs.counted(rows[target], target) for target in turns}
        rounds.append(Round(spans[SHORT_S], spans[LONG_S]))
        rows = {target: round(rows[target] * target / length_s(spans[target])) for target in rows}
    return figures(rounds)


def figures(rounds: list[Round]) -> dict[str, float]:
    """Medians over the rounds whose epochs were as long as they should be; over all if there are none."""
    near = [done for done in rounds if done.is_near()] or rounds
    return {
        "ratio_1s_to_10s": median(_events_per_s(done.short) / _events_per_s(done.long) for done in near),
        "events_per_s_1s": median(_events_per_s(done.short) for done in near),
        "events_per_s_10s": median(_events_per_s(done.long) for done in near),
        "short_epoch_s": median(length_s(done.short) for done in near),
        "long_epoch_s": median(length_s(done.long) for done in near),
        "rounds": len(rounds),
        "rounds_near": sum(done.is_near() for done in rounds),
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
        """Events and seconds of each epoch."""
        folder, rows = next(self._folders), rows_per_epoch * epochs
        top = counted(folder, distinct=KEYS, rows=rows, rows_per_epoch=rows_per_epoch, parallelism=SLICES)
        return [(found, seconds) for found, seconds in run_through(top, folder) if found]

    def counted(self, rows_per_epoch: int, target_s: float) -> Spans:
        """Those of the time that counts."""
        beginning, measured = round(BEGINNING_S / target_s), round(MEASURED_S / target_s)
        return self(rows_per_epoch, beginning + measured)[beginning:]


def length_s(epochs: Spans) -> float:
    """How long an epoch took."""
    return median(seconds for _, seconds in epochs)


def _events_per_s(epochs: Spans) -> float:
    return sum(found for found, _ in epochs) / sum(seconds for _, seconds in epochs)
