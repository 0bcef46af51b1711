"""A mobile network that is made up: every EDR and streaming event is a function of its number and a seed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
import polars as pl

import penstock as ps
from penstock.apps.smart_pcc import _generated_kernels as kernels
from penstock.apps.smart_pcc.rules import EDR, STREAMING
from penstock.errors import BadArgument
from penstock.operators.event_time import as_timestamps

PLANS = ("student", "basic", "family", "business", "night")
VIDEOS = tuple(f"https://video.example/{number:04x}" for number in range(4096))
EDR_PART, EVENT_PART = 13, 9
"""SAND's mix: 1.3 million EDRs with 0.9 million streaming events."""


@dataclass(frozen=True, slots=True)
class Network:
    """``rows`` tuples of ``subscribers`` within an hour of event time, up to two seconds out of order.

    Quotas fill up at a speed of each subscriber's own; about one in six comes near its end, most of these
    exhaust it, and some are given a new one. Everyone reports several times in the window.
    """

    subscribers: int
    rows: int
    seed: int = 1

    def __post_init__(self) -> None:
        for what, got in (("subscribers", self.subscribers), ("rows", self.rows)):
            if got < 1:
                raise BadArgument(where="smart-pcc", what=what, got=repr(got), allowed="at least 1")

    @property
    def counts(self) -> tuple[int, int]:
        """EDRs and streaming events."""
        return self.shares(self.rows)

    def shares(self, rows: int) -> tuple[int, int]:
        """How many EDRs and how many streaming events are so many tuples."""
        edrs = max(1, rows * EDR_PART // (EDR_PART + EVENT_PART))
        return edrs, max(1, rows - edrs)

    def sources(self, rate: float | None = None) -> tuple[ps.Generator, ps.Generator]:
        """Both as sources, together ``rate`` tuples a second."""
        made = []
        for make, schema, count in zip((self.edrs, self.events), (EDR, STREAMING), self.counts, strict=True):
            speed = None if rate is None else rate * count / self.rows
            source = ps.Generator(
                make, schema=schema, rows=count, rate=speed, time="time",
                time_of=_Clock(count), lateness=dt.timedelta(microseconds=kernels.LATENESS_US),
            )  # fmt: skip
            made.append(source)
        return made[0], made[1]

    def edrs(self, first: int, count: int) -> pl.DataFrame:
        """EDRs number ``first`` and following."""
        out = np.empty((kernels.COLUMNS, count), np.int64)
        kernels.edrs(first, self.counts[0], self.subscribers, self.seed, out)
        return pl.DataFrame(
            {
                "time": as_timestamps(out[kernels.TIME]),
                "msisdn": out[kernels.MSISDN],
                "plan": pl.Series(PLANS).gather(out[kernels.PLAN]),
                "quota_limit": out[kernels.LIMIT],
                "quota_used": out[kernels.USED],
                "renews": as_timestamps(out[kernels.RENEWS]),
            }
        )

    def events(self, first: int, count: int) -> pl.DataFrame:
        """Streaming events number ``first`` and following."""
        out = np.empty((3, count), np.int64)
        kernels.events(first, self.counts[1], self.subscribers, self.seed, len(VIDEOS), out)
        return pl.DataFrame(
            {
                "time": as_timestamps(out[0]),
                "msisdn": out[1],
                "video": pl.Series(VIDEOS).gather(out[2]),
            }
        )


@dataclass(frozen=True, slots=True)
class _Clock:
    """The greatest time that event number n can have."""

    count: int

    def __call__(self, number: int) -> int:
        return kernels.START_US + number * kernels.SPAN_US // self.count
