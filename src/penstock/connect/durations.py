"""Lengths of time as users write them."""

from __future__ import annotations

import re
from datetime import timedelta

from penstock.errors import BadArgument

_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)(us|ms|s|m|h|d)$")


def microseconds(duration: str | timedelta, *, where: str, what: str) -> int:
    """The length in µs of a text such as ``"250ms"`` or of a timedelta.

    >>> microseconds("1.5s", where="doc", what="lateness")
    1500000
    """
    if isinstance(duration, timedelta):
        length = duration // timedelta(microseconds=1)
    elif found := _DURATION.match(duration):
        length = round(float(found[1]) * _UNITS_US[found[2]])
    else:
        length = -1
    if length < 0:
        allowed = "a timedelta of at least 0, or a number and a unit: '10us', '250ms', '5s', '2m', '1h', '7d'"
        raise BadArgument(where=where, what=what, got=repr(duration), allowed=allowed)
    return length


def ahead_of_clock(ahead: str | timedelta | None, *, where: str) -> int | None:
    """The bound ``ahead=`` of a source in µs; None: events may be as far ahead of the clock as they like."""
    return None if ahead is None else microseconds(ahead, where=where, what="ahead")
