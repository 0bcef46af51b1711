"""Scenarios, and the faults that a scenario draws from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from penstock.errors import PenstockError
from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.endings import Ending
from penstock.testing.chaos.faults import Fault

Draw = Callable[[random.Random], Sequence[Fault]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of trouble."""

    name: str
    about: str
    draw: Draw
    may_end: tuple[Ending, ...] = ()
    """Errors that its faults may end a run with; the run is started again then."""
    place: Literal["warm", "disk", "second", "supervised", "supervised-disk", "cluster"] = "warm"
    """Where it runs (see ``grounds``): the warm session of the harness, a second runner beside it, a
    supervisor with its drivers, or a standalone cluster; the first and the third also on a small disk."""
    changes: bool = False
    """Whether the topology is changed while it runs, so only for checks that have another version."""
    needs: Literal["", "files"] = ""
    """``files``: only for checks with a sink that commits by renaming files, in Python."""
    every: int = 1
    """Slow ones take part only in every so-many-th round."""

    def suits(self, check: Check) -> bool:
        return (not self.changes or bool(check.changes)) and (not self.needs or check.commits_files)

    def expects(self, error: PenstockError) -> bool:
        return any(ending.fits(error) for ending in self.may_end)


@dataclass(frozen=True, slots=True)
class Schedule:
    """What happens in one run: it follows from scenario, check and seed alone."""

    scenario: Scenario
    check: Check
    seed: int

    @property
    def faults(self) -> tuple[Fault, ...]:
        source = random.Random(f"{self.scenario.name}/{self.check.name}/{self.seed}")
        drawn = self.scenario.draw(source)
        return tuple(replace(fault, visit=fault.visit * self.check.stretch) for fault in drawn)

    def __str__(self) -> str:
        faults = "; ".join(map(str, self.faults)) or "no fault"
        return f"--scenario {self.scenario.name} --check {self.check.name} --seed {self.seed}  ({faults})"


def in_turn(scenarios: Sequence[Scenario], checks: Sequence[Check], seed: int = 0) -> Iterator[Schedule]:
    """Schedules without end. In a round each scenario gets one check, in the next one the next check."""
    for number in itertools.count():
        for place, scenario in enumerate(scenarios):
            suited = [check for check in checks if scenario.suits(check)]
            if suited and (number + place) % scenario.every == 0:
                turn = number // scenario.every + place
                yield Schedule(scenario, suited[turn % len(suited)], seed + number)
