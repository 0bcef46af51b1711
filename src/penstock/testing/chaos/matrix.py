"""Run schedules over all scenarios and checks for a given time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from penstock.errors import BadArgument
from penstock.testing.chaos.checks import Check
from penstock.testing.chaos.grounds import Grounds
from penstock.testing.chaos.lane import Work, lane_for
from penstock.testing.chaos.report import Report
from penstock.testing.chaos.schedules import Scenario, in_turn
from penstock.testing.chaos.trial import Outcome, run_schedule

_WORTH_A_SESSION = 8


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
        here, *beside = divided(able) if seconds and able else [able]
        with ExitStack() as stack:
            lanes = [stack.enter_context(lane_for(Work(part, checks, seed), note)) for part in beside]
            for schedule in in_turn(here, checks, seed) if here else ():
                for lane in lanes:
                    lane.advance(schedule.seed - seed)
                note(run_schedule(schedule, grounds))
                if until_red and report.red:
                    return report
                if time.monotonic() - began > seconds:
                    break
            for lane in lanes:
                lane.begin_no_more()
            for lane in lanes:
                lane.finish()
    return report


def divided(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """Parts that share no place and can run side by side; the first one is for this process.

    A schedule in a warm session waits most of its time for processes to start, so two of them get along; but
    a second session is worth its start only if there is much to do.
    """
    elsewhere = [scenario for scenario in scenarios if scenario.place not in ("warm", "disk")]
    warm = [scenario for scenario in scenarios if scenario.place == "warm"]
    second = warm[1::2] if len(warm) >= _WORTH_A_SESSION else []
    here = [scenario for scenario in scenarios if scenario not in (*elsewhere, *second)]
    return [part for part in (here, second, elsewhere) if part]
