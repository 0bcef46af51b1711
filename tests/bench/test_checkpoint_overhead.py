"""Which rounds of short and long epochs count, and what they say."""

from __future__ import annotations

import pytest

from penstock.bench.checkpoint_overhead import Round, figures


def a_round(*, short_s: float = 1.0, long_s: float = 10.0, short_rate: float = 8.0) -> Round:
    short = [(round(short_rate * short_s * 1_000), short_s)] * 5
    return Round(short, [(round(10_000 * long_s), long_s)] * 2)


def test_the_ratio_is_that_of_epochs_which_ran_one_after_the_other() -> None:
    found = figures([a_round(short_rate=8.0), a_round(short_rate=9.0), a_round(short_rate=9.5)])
    assert found["ratio_1s_to_10s"] == pytest.approx(0.9)
    assert (found["short_epoch_s"], found["long_epoch_s"]) == (1.0, 10.0)


@pytest.mark.parametrize("off", [{"short_s": 0.85}, {"short_s": 1.15}, {"long_s": 8.5}, {"long_s": 11.5}])
def test_a_round_whose_epochs_have_another_length_does_not_count(off: dict[str, float]) -> None:
    found = figures([a_round(short_rate=8.0), a_round(short_rate=5.0, **off)])
    assert found["ratio_1s_to_10s"] == pytest.approx(0.8)
    assert (found["rounds"], found["rounds_near"]) == (2, 1)


def test_rounds_that_are_all_off_are_told_as_they_were() -> None:
    found = figures([a_round(short_s=0.8)])
    assert (found["short_epoch_s"], found["rounds_near"]) == (0.8, 0)
