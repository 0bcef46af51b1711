"""Text from the command line as values; ValueError says what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.control.source_changes import Decision


def parse_time(text: str) -> timedelta:
    """A length of time.

    >>> parse_time("500ms"), parse_time("1.5m")
    (datetime.timedelta(microseconds=500000), datetime.timedelta(seconds=90))
    """
    from penstock.connect.durations import microseconds

    return timedelta(microseconds=microseconds(text.strip(), where="--every", what="the time"))


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Spark settings from ``key=value`` texts; the last one of a key wins.

    >>> parse_settings(["spark.ui.enabled=true", "spark.x=a=b"])
    {'spark.ui.enabled': 'true', 'spark.x': 'a=b'}
    """
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{pair!r} is no setting; write KEY=VALUE, e.g. spark.ui.enabled=true")
        settings[key.strip()] = value.strip()
    return settings


def parse_decisions(pairs: Sequence[str]) -> dict[str, Decision]:
    """Return what becomes of sources, from ``name=decision`` texts; the last one of a name wins.

    >>> parse_decisions(["orders=continue", "clicks=anew"])
    {'orders': 'continue', 'clicks': 'anew'}
    """
    decisions: dict[str, Decision] = {}
    for pair in pairs:
        name, _, decision = (part.strip() for part in pair.partition("="))
        if not name or (decision != "continue" and decision != "anew"):
            raise ValueError(f"{pair!r} decides nothing; write NAME=continue or NAME=anew")
        decisions[name] = "continue" if decision == "continue" else "anew"
    return decisions
