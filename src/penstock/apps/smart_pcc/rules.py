"""The words of the application: its events, its signals, and when a signal is due."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import polars as pl

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument

EDR = {
    "time": dt.datetime,
    "msisdn": int,
    "plan": str,
    "quota_limit": int,
    "quota_used": int,
    "renews": dt.datetime,
}
"""An event data record: how many bytes of a plan's quota are used, and when it begins anew."""
STREAMING = {"time": dt.datetime, "msisdn": int, "video": str}
"""A probe has seen a subscriber watch a video."""
SIGNAL = {
    "time": dt.datetime,
    "signal": str,
    "msisdn": int,
    "plan": str,
    "quota_limit": int,
    "quota_used": int,
    "renews": dt.datetime,
    "free_bytes": int,
}
"""What the decision component gets, once for each signal, msisdn, plan, quota_limit and renews."""
SIGNALS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class Rules:
    """When a streaming event of a subscriber is worth a signal.

    The last EDR up to the event counts if it is at most ``window`` old. a: at least ``near`` of the quota is
    used. b: all of it is; grants ``free`` of the quota on top of what is used then. c: that is used too.
    """

    near: float = 0.9
    free: float = 0.1
    window: str | dt.timedelta = "15m"

    def __post_init__(self) -> None:
        if not 0 < self.near <= 1:
            raise _wrong("near", self.near, "a part of the quota, above 0 and at most 1")
        if not 0 <= self.free <= 10:
            raise _wrong("free", self.free, "a part of the quota, 0 to 10")
        if not self.window_us:
            raise _wrong("window", self.window, "more than no time")

    @property
    def window_us(self) -> int:
        return microseconds(self.window, where="smart-pcc", what="window")

    def is_near(self) -> pl.Expr:
        """Whether an EDR matters: its quota is nearly used up."""
        limit = pl.col("quota_limit")
        return (limit > 0) & (pl.col("quota_used") >= limit * self.near)


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="smart-pcc", what=what, got=repr(got), allowed=allowed)
