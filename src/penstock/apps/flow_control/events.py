"""The words of the application: its events, its notices, and when a base station controller is told."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument

VOICE = {"time": dt.datetime, "msisdn": int, "bytes": int, "lac": int, "cell": int}
"""A voice message of a subscriber in a cell (location area code and cell id)."""
KPI = {"time": dt.datetime, "bsc": int, "voice_rate": float}
"""What a base station controller reports: how busy its channels for voice calls are."""
CELLS = {"time": dt.datetime, "lac": int, "cell": int, "bsc": int}
"""From this time on a cell belongs to a controller."""
NOTICE = {"time": dt.datetime, "bsc": int, "action": str, "voice_rate": float, "volume_bytes": int}
LIMIT, RELEASE = "limit", "release"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A controller limits data while its voice rate is above t1 and the bytes in the window are above t2."""

    t1: float = 0.8
    t2: int = 50_000_000
    window: str | dt.timedelta = "5m"

    def __post_init__(self) -> None:
        if not self.t1 >= 0:
            raise _wrong("t1", self.t1, "a voice rate of at least 0")
        if not self.t2 >= 0:
            raise _wrong("t2", self.t2, "a number of bytes, at least 0")
        if not self.window_us:
            raise _wrong("window", self.window, "more than no time")

    @property
    def window_us(self) -> int:
        return microseconds(self.window, where="flow-control", what="window")


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="flow-control", what=what, got=repr(got), allowed=allowed)
