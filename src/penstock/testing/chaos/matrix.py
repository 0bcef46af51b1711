"""Run schedules one after the other, for a given time, over all scenarios and checks."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from penstock.errors import BadArgument
from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.grounds import Grounds
from penstock.testing.chaos.report import Report
from penstock.testing.chaos.schedules import Scenario, Schedule
from penstock.testing.chaos.trial import Outcome, Trial


def in_turn(scenarios: Sequence[Scenario], checks: Sequence[Check], seed: int = 0) -> Iterator[Schedule]:
    """Schedules without end. In a round each scenario gets one check, in the next one the next check."""
    for number in itertools.count():
        for place, scenario in enumerate(scenarios):
            suited = [check for check in checks if scenario.suits(check)]
            if suited and (number + place) % scenario.every == 0:
                turn = number // scenario.every + place
                yield Schedule(scenario, suited[turn % len(suited)], seed + number)


def run_matrix(
    scenarios: Sequence[Scenario],
    checks: Sequence[Check],
    *,
    seconds: float,
    seed: int = 0,
    tell: Callable[[Outcome], None] | None = None,
    until_red: bool = False,
) -> Report:
    """Let faults loose on the checks until the time is up, and count what is lost, doubled or wrong.

    ``until_red`` ends with the first schedule that goes wrong.
    """
    if not any(scenario.suits(check) for scenario in scenarios for check in checks):
        raise BadArgument(
            where="chaos",
            what="the choice of scenarios and checks",
            got=f"{[s.name for s in scenarios]} and {[c.name for c in checks]}",
            allowed="at least one scenario that suits a check",
        )
    report, began = Report(), time.monotonic()
    with Grounds() as grounds:
        for scenario in scenarios:
            if why := grounds.lacks(scenario):
                report.skipped[scenario.name] = why
        able = [scenario for scenario in scenarios if scenario.name not in report.skipped]
        for schedule in in_turn(able, checks, seed) if able else ():
            outcome = run_schedule(schedule, grounds)
            report.add(outcome)
            report.seconds = time.monotonic() - began
            if tell is not None:
                tell(outcome)
            if report.seconds > seconds or (until_red and report.red):
                break
    return report


def run_schedule(schedule: Schedule, grounds: Grounds) -> Outcome:
    """Run one schedule; its folder is kept if something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-chaos-", dir=grounds.folder_for(schedule.scenario)))
    outcome = Trial(schedule, folder, grounds.place_for(schedule.scenario)).run()
    grounds.get_ready()
    if not outcome.difference:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome
