"""What a failure is called in a run's incidents: the cause, without the way that Spark has led it."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.spark.causes import cause_of

IN_A_TASK = (
    "Job aborted due to stage failure: Task 1 in stage 27.0 failed 2 times, most recent failure: "
    "Lost task 1.1 in stage 27.0 (TID 40) (192.0.2.2 executor driver): "
)
DEAD_WORKER = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
ADVICE = ". Consider setting 'spark.python.worker.faulthandler.enabled' configuration to 'true' for more."


class ByACause(Exception):
    """As PySpark's, which keeps the JVM's cause."""

    def __init__(self, text: str, cause: BaseException) -> None:
        super().__init__(text)
        self._cause = cause


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"{IN_A_TASK}{DEAD_WORKER}{ADVICE}", "Python worker exited unexpectedly (crashed)"),
        (f"{IN_A_TASK}java.io.IOException: Broken pipe\n\tat java.base", "java.io.IOException: Broken pipe"),
        ("[STREAM] a\nTraceback:\n  File x\nValueError: bad value\n\n  at y", "ValueError: bad value"),
        ("first\nsecond\n\nthird\nfourth", "first second third"),
    ],
)
def test_a_cause_is_told_without_its_way_through_spark(said: str, told: str) -> None:
    assert cause_of(RuntimeError(said)) == told


def test_a_full_disk_is_found_in_the_cause_of_a_cause() -> None:
    line = f"java.io.IOException: {os.strerror(errno.ENOSPC)}"
    error = ByACause(
        "the state store failed", ByACause("the file failed", RuntimeError(f"at x\n{line}\nat y"))
    )
    assert cause_of(error) == line


def test_a_message_without_words_is_told_as_it_is() -> None:
    assert cause_of(RuntimeError("")) == ""
