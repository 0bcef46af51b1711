"""A radio network that is made up: messages, reports and moved cells by their numbers and a seed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

import penstock as ps
from penstock.apps.flow_control.events import CELLS, KPI, VOICE
from penstock.errors import BadArgument
from penstock.frames.hashing import stable_hash
from penstock.operators.event_time import as_timestamps

START_US = 1_767_225_600_000_000  # 2026-01-01
SPAN_US = 7_200_000_000
LATENESS_US = 2_000_000
REPORT_US = 10_000_000
MINUTE_US = 60_000_000
CELLS_PER_AREA = 20
MOVES = 60
FIRST_NUMBER = 49_170_000_000_00
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Network:
    """``messages`` voice messages within two hours, up to two seconds out of order; reports every 10 seconds.

    Each controller has busy times for voice and busy times for messages, which now and then coincide. Every
    other minute a cell moves to another controller.
    """

    messages: int
    stations: int = 50
    cells: int = 1000
    seed: int = 1

    def __post_init__(self) -> None:
        for what in ("messages", "stations", "cells"):
            if getattr(self, what) < 1:
                got = repr(getattr(self, what))
                raise BadArgument(where="flow-control", what=what, got=got, allowed="at least 1")

    @property
    def reports(self) -> int:
        return self.stations * (SPAN_US // REPORT_US)

    def sources(self, rate: float | None = None) -> tuple[ps.Generator, ps.Generator, ps.Generator]:
        """Messages at this rate per second, reports as they come in the same time, and the map."""
        made = partial(ps.Generator, time="time", lateness=dt.timedelta(microseconds=LATENESS_US))
        reports = None if rate is None else rate * self.reports / self.messages
        return (
            made(self.voice, schema=VOICE, rows=self.messages, rate=rate, time_of=_Clock(self.messages)),
            made(self.kpis, schema=KPI, rows=self.reports, rate=reports, time_of=_Clock(self.reports)),
            # The map is small and comes at once; its moves wait for their time.
            made(self.map, schema=CELLS, rows=self.cells + MOVES, time_of=_MapClock(self.cells)),
        )

    def voice(self, first: int, count: int) -> pl.DataFrame:
        """Voice messages number ``first`` and following."""
        number = np.arange(first, first + count)
        chance = self._dice(number, 0)
        time = START_US + number * SPAN_US // self.messages - (chance >> 32) % LATENESS_US
        cell = chance % self.cells
        is_busy = (time // (5 * MINUTE_US) + cell // CELLS_PER_AREA) % 4 == 0
        size = (4_000 + (chance >> 16) % 40_000) * np.where(is_busy, 5, 1)
        who = self._dice(number, 1) % 1_000_000
        return pl.DataFrame(
            {
                "time": as_timestamps(time),
                "msisdn": FIRST_NUMBER + who,
                "bytes": size,
                "lac": cell // CELLS_PER_AREA,
                "cell": cell,
            }
        )

    def kpis(self, first: int, count: int) -> pl.DataFrame:
        """Reports number ``first`` and following."""
        number = np.arange(first, first + count)
        time = START_US + number * SPAN_US // self.reports
        station = number % self.stations
        calm = np.array([0.55, 0.7, 0.85])[(time // (7 * MINUTE_US) + station) % 3]
        return pl.DataFrame(
            {
                "time": as_timestamps(time),
                "bsc": station,
                "voice_rate": np.round(calm + self._dice(number, 2) % 100 / 1000, 3),
            }
        )

    def map(self, first: int, count: int) -> pl.DataFrame:
        """Which controller each cell belongs to at the start, then the moves."""
        number = np.arange(first, first + count)
        is_move = number >= self.cells
        chance = self._dice(number, 3)
        cell = np.where(is_move, chance % self.cells, number)
        area = cell // CELLS_PER_AREA
        time = START_US - LATENESS_US + np.where(is_move, (number - self.cells + 1) * 2 * MINUTE_US, 0)
        station = np.where(is_move, (chance >> 20) % self.stations, area % self.stations)
        return pl.DataFrame({"time": as_timestamps(time), "lac": area, "cell": cell, "bsc": station})

    def _dice(self, number: Numbers, which: int) -> Numbers:
        """Numbers that look random, from 0 to 2^62."""
        mixed = stable_hash([pl.Series(number + (self.seed * 8 + which) * 1_000_000_007)])
        return (mixed >> np.uint64(2)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Clock:
    """The greatest time that event number n can have."""

    count: int

    def __call__(self, number: int) -> int:
        return START_US + number * SPAN_US // self.count


@dataclass(frozen=True, slots=True)
class _MapClock:
    """The same for the map, which is complete at the start and then moves."""

    cells: int

    def __call__(self, number: int) -> int:
        return START_US + max(0, number - self.cells + 1) * 2 * MINUTE_US
