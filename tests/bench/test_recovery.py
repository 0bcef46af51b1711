"""Recovery figures from a log of epochs, and the image of it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from penstock.bench.recovery import recoveries
from penstock.bench.timeline import write_timeline
from penstock.control.progress import Progress
from penstock.errors import InternalError

SECOND = 10**9


def epoch(number: int, at_s: float, events: int, took_s: float = 0.9) -> Progress:
    return Progress(number, 1, events, 0, took_s * 1000, int(at_s * SECOND))


LOG = [
    *(epoch(n, n + 1, 1_000) for n in range(5)),
    epoch(5, 9.5, 4_500),
    epoch(6, 10.5, 1_200),
    epoch(7, 11.5, 1_000),
]


def test_an_outage_ends_with_the_next_commit_and_is_caught_up_when_epochs_are_small_again() -> None:
    (recovery,) = recoveries(LOG, [int(5.5 * SECOND)])
    assert recovery.outage_s == pytest.approx(4.0)
    assert recovery.catch_up_s == pytest.approx(1.0)
    assert recovery.mending_s == pytest.approx(1.0)


def test_an_epoch_that_was_planned_before_the_fault_has_caught_nothing_up() -> None:
    log = [*LOG[:5], epoch(5, 9.5, 1_000, took_s=4.4), epoch(6, 11.5, 4_500), epoch(7, 12.5, 1_000)]
    (recovery,) = recoveries(log, [int(5.5 * SECOND)])
    assert recovery.catch_up_s == pytest.approx(3.0)


def test_a_run_that_does_not_catch_up_is_no_figure() -> None:
    with pytest.raises(InternalError):
        recoveries(LOG[:-2], [int(5.5 * SECOND)])


def test_the_image_marks_every_fault(tmp_path: Path) -> None:
    faults = [int(5.5 * SECOND), int(10.6 * SECOND)]
    image = write_timeline(tmp_path / "out" / "image.svg", {"one": (LOG, faults), "two": (LOG, faults[:1])})
    drawn = ElementTree.parse(image).getroot()
    dashed = [e for e in drawn.iter() if e.get("stroke-dasharray")]
    assert len(dashed) == 3
