"""A short, fixed selection of chaos schedules; `make chaos` runs hundreds of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import chaos
from penstock.testing.chaos.grounds import Grounds
from penstock.testing.chaos.trial import run_schedule

pytestmark = [pytest.mark.spark, pytest.mark.long]
CHECKS = {check.name: check for check in chaos.FAMILIES}
SCENARIOS = {scenario.name: scenario for scenario in chaos.SCENARIOS}


@pytest.fixture(scope="module")
def grounds() -> Iterator[Grounds]:
    with Grounds() as made:
        yield made


@pytest.mark.parametrize(
    ("scenario", "check", "seed"),
    [
        ("before-sink", "keyed", 1),
        ("after-sink", "several-sinks", 1),
        ("commit-lost", "windows", 1),
        ("worker-killed", "two-hops", 1),
        ("bit-flipped", "keyed", 1),
        ("during-change", "keyed", 1),
    ],
)
def test_nothing_is_lost_doubled_or_wrong(scenario: str, check: str, seed: int, grounds: Grounds) -> None:
    outcome = run_schedule(chaos.Schedule(SCENARIOS[scenario], CHECKS[check], seed), grounds)
    assert not outcome.difference, (str(outcome.schedule), outcome.trouble, outcome.sinks, outcome.failures)
    assert outcome.events > 0
    assert outcome.fired, str(outcome.schedule)


def test_an_error_that_the_scenario_does_not_expect_is_wrong(grounds: Grounds) -> None:
    dies = chaos.Scenario(
        "dies", "the process that commits dies", lambda chance: [chaos.Fault("before-sink", 1, "die")]
    )
    outcome = run_schedule(chaos.Schedule(dies, CHECKS["stateless"], 0), grounds)
    assert outcome.difference == chaos.Difference(wrong=1)
    assert "STREAM_FAILED" in outcome.trouble
