"""The matcher: which controllers are to limit data so that voice calls keep their quality."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

import penstock as ps
from penstock.apps.flow_control import _matcher_kernels as kernels
from penstock.apps.flow_control.events import LIMIT, NOTICE, RELEASE, Thresholds
from penstock.operators.event_time import LATE, NEVER, as_timestamps, as_us, times
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

KPIS, STATIONS = "kpis", "stations"
_MESSAGES = "messages"
_VALUES = {"volume_bytes": int, "voice_rate": float, "is_limited": bool}


@dataclass(frozen=True)
class Matcher(ps.Operator):
    """Emits a notice at the moment when a controller comes above both thresholds, or is no longer.

    Takes voice messages with their controller, and on its input ``kpis`` the rates, both keyed by ``bsc``.
    They wait for the punctuation and are taken in the order of time. A message counts from its time on for
    the length of the window; of rates at one time the greatest counts. What happens at one moment counts
    together. The output ``stations`` has the controllers that changed, as they are after an epoch. State: the
    messages of the window, what waits, and three values of each controller.
    """

    returns: ClassVar[Mapping[str, Any]] = NOTICE
    outputs: ClassVar[Mapping[str, Any]] = {
        STATIONS: {"bsc": int, **_VALUES},
        LATE: {"time": dt.datetime, "bsc": int},
    }
    thresholds: Thresholds

    def init_state(self) -> dict[str, Any]:
        return {
            _MESSAGES: TimedRows("time"),
            KPIS: TimedRows("time"),
            STATIONS: ps.KeyedTable({"bsc": int}, _VALUES),
        }

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        self.process_input("in", batch, state, emit)

    def process_input(self, name: str, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        rows = state[KPIS if name == KPIS else _MESSAGES]
        is_late = times(batch, "time") < max(rows.clock, NEVER + 1)
        if is_late.any():
            emit.to(LATE, batch.filter(pl.Series(is_late)).select("time", "bsc"))
            batch = batch.filter(pl.Series(~is_late))
        if batch.height:
            rows.append(batch if name == KPIS else batch.select("time", "bsc", "bytes"))

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        clock, messages = as_us(time), state[_MESSAGES]
        points = self._changes_of_volume(messages, clock)
        kpis = released(state[KPIS], clock)
        if kpis is not None:
            # The greatest rate of a moment comes last, and counts.
            kpis = kpis.filter(pl.col("voice_rate").is_not_nan()).sort("time", "voice_rate")
            moments, rates = times(kpis, "time"), kpis["voice_rate"].to_numpy()
            points.append((kpis["bsc"], moments, np.zeros(kpis.height, np.int64), rates))
        messages.clock = state[KPIS].clock = clock
        messages.drop_before(clock - self.thresholds.window_us)
        if sum(len(point[0]) for point in points):
            emit(self._notices(points, state[STATIONS]))
            emit.to(STATIONS, state[STATIONS].frame(state[STATIONS].changed()))

    def _changes_of_volume(self, messages: TimedRows, clock: int) -> list[Any]:
        """Messages that came into the window since the last punctuation, and those that left it."""
        if not len(messages):
            return []
        rows, came = messages.frame(), messages.times
        left = came + self.thresholds.window_us
        points = []
        for moments, sign in ((came, 1), (left, -1)):
            now = np.flatnonzero((moments >= messages.clock) & (moments < clock))
            size = sign * rows["bytes"].gather(now).to_numpy()
            points.append((rows["bsc"].gather(now), moments[now], size, np.full(len(now), np.nan)))
        return points

    def _notices(self, points: list[Any], stations: Any) -> pl.DataFrame:
        controllers, moments, sizes, rates = zip(*points, strict=True)
        moment, size, rate = map(np.concatenate, (moments, sizes, rates))
        station = stations.rows([pl.concat(controllers)])
        order = np.lexsort((moment, station))  # stable: rates of one moment stay in their order
        found = np.empty((kernels.OUT, len(order)), np.int64)
        found_rates = np.empty(len(order), np.float64)
        held = stations["volume_bytes"], stations["voice_rate"], stations["is_limited"]
        over = float(self.thresholds.t1), int(self.thresholds.t2)
        count = kernels.notices(order, station, moment, size, rate, *held, *over, found, found_rates)
        found = found[:, :count]
        return pl.DataFrame(
            {
                "time": as_timestamps(found[kernels.TIME]),
                "bsc": stations.frame(found[kernels.STATION])["bsc"],
                "action": pl.Series((RELEASE, LIMIT)).gather(found[kernels.IS_LIMIT]),
                "voice_rate": found_rates[:count],
                "volume_bytes": found[kernels.VOLUME],
            }
        )
