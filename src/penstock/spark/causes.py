"""The cause of a failure, in Spark's long messages."""

from __future__ import annotations

import re

from penstock.control.restarting import is_full

_MOST_WORDS = 2000
_WHICH_TASK = re.compile(r"^Job aborted due to stage failure: .*? \(TID \d+\) \([^)]*\): ")
_WHAT_SPARK_ADDS = re.compile(r"^org\.apache\.spark\.SparkException: |\.? Consider setting 'spark\..*")


def cause_of(error: BaseException | None) -> str:
    """What failed a query: the line about a full disk if there is one, otherwise Spark's own cause."""
    return _no_room(error) or _first_words(str(error))


def _no_room(error: BaseException | None) -> str:
    """The line about a full disk; when a state store meets it, only the cause of a cause has it."""
    while error is not None:
        for line in str(error).splitlines():
            if is_full(line):
                return line.strip()[:_MOST_WORDS]
        error = getattr(error, "_cause", None)
    return ""


def _first_words(text: str) -> str:
    """The last line of a Python traceback or a Java exception, or the message's beginning.

    >>> way = "Job aborted due to stage failure: Lost task 0.0 in stage 7.0 (TID 9) (host executor driver): "
    >>> _first_words(way + "java.io.IOException: Broken pipe")
    'java.io.IOException: Broken pipe'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error:" in line or "Exception:" in line]
    found = _WHICH_TASK.sub("", errors[-1] if errors else " ".join(lines[:3]))
    return _WHAT_SPARK_ADDS.sub("", found)[:_MOST_WORDS]
