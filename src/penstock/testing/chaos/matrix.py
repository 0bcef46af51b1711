"""Run schedules over all scenarios and checks for a given time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from penstock.errors import BadArgument
from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.grounds import Grounds
from penstock.testing.chaos.lane import Work, lane_for
from penstock.testing.chaos.report import Report
from penstock.testing.chaos.schedules import Scenario, in_turn
from penstock.testing.chaos.trial import Outcome, run_schedule


def run_matrix(
    scenarios: Sequence[Scenario],
    checks: Sequence[Check],
    *,
    seconds: float,
    seed: int = 0,
    tell: Callable[[Outcome], None] | None = None,
    until_red: bool = False,
    report: Report | None = None,
) -> Report:
    """Let faults loose on the checks until the time is up, and count what is lost, doubled or wrong.

    ``until_red`` ends with the first schedule that goes wrong. Should this be interrupted, a ``report`` that
    was given has what was counted so far.
    """
    if not any(scenario.suits(check) for scenario in scenarios for check in checks):
        raise BadArgument(
            where="chaos",
            what="the choice of scenarios and checks",
            got=f"{[s.name for s in scenarios]} and {[c.name for c in checks]}",
            allowed="at least one scenario that suits a check",
        )
    report, began, noting = report or Report(), time.monotonic(), threading.Lock()

    def note(outcome: Outcome) -> None:
        with noting:
            report.add(outcome)
            report.seconds = time.monotonic() - began
            if tell is not None:
                tell(outcome)

    with Grounds() as grounds:
        for scenario in scenarios:
            if why := grounds.lacks(scenario):
                report.skipped[scenario.name] = why
        able = [scenario for scenario in scenarios if scenario.name not in report.skipped]
        here, beside = _divided(able) if seconds else (able, [])
        with lane_for(Work(beside, checks, seed), note) as lane:
            for schedule in in_turn(here, checks, seed) if here else ():
                if lane is not None:
                    lane.advance(schedule.seed - seed)
                note(run_schedule(schedule, grounds))
                if until_red and report.red:
                    return report
                if time.monotonic() - began > seconds:
                    break
            if lane is not None:
                lane.finish()
    return report


def _divided(scenarios: Sequence[Scenario]) -> tuple[list[Scenario], list[Scenario]]:
    """Those for the warm session, and those that share nothing with it and can run beside it."""
    beside = [scenario for scenario in scenarios if scenario.place not in ("warm", "disk")]
    here = [scenario for scenario in scenarios if scenario not in beside]
    return (here, beside) if here else (beside, [])
