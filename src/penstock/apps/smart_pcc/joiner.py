"""The joiner: streaming events of subscribers whose quota is nearly used up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

import penstock as ps
from penstock.apps.smart_pcc import _joiner_kernels as kernels
from penstock.apps.smart_pcc.rules import SIGNAL, SIGNALS, Rules
from penstock.operators.event_time import LATE, NEVER, as_timestamps, as_us, behind, times
from penstock.operators.operator import Emit
from penstock.operators.restore_order import released
from penstock.operators.timed_rows import TimedRows

if TYPE_CHECKING:
    from penstock.operators.event_time import Mask
    from penstock.operators.operator import Watermarks

EDRS = "edrs"
EVENTS, PLANS, STANDINGS, QUOTAS = "events", "plans", "standings", "quotas"
_FREE_ROW = 2**62  # the time of rows that hold nothing: never over
_FIGURES = ("time", "used", "limit", "renews", "free_until")


@dataclass(frozen=True)
class Joiner(ps.Operator):
    """Emits each signal once for a quota, at the first event in event time that deserves it.

    Takes events, and on its input ``edrs`` the EDRs near their quota, both keyed by ``msisdn``. Rows wait for
    the punctuation and are then taken in the order of time, an EDR before an event of the same moment; so
    neither interleaving nor epochs show. A quota is new when its limit or its renewal changes. Late rows go
    to the output ``late``. State: what waits, each subscriber's last EDR for the length of the window, and
    until the renewal what has been sent.
    """

    returns: ClassVar[Mapping[str, Any]] = SIGNAL
    outputs: ClassVar[Mapping[str, Any]] = {LATE: {"time": dt.datetime, "msisdn": int}}
    rules: Rules

    def init_state(self) -> dict[str, Any]:
        return {
            EVENTS: TimedRows("time"),
            EDRS: TimedRows("time"),
            PLANS: ps.KeyedTable({"plan": str}, {}),
            STANDINGS: ps.KeyedTable({"msisdn": int}, {"time": (int, _FREE_ROW), "plan": (int, -1)}),
            QUOTAS: ps.KeyedTable(
                {"msisdn": int, "plan": int},
                {**dict.fromkeys(_FIGURES, int), "time": (int, _FREE_ROW), "sent": "uint8"},
            ),
        }

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> Mask:
        return behind(rows, "time", watermarks)

    def put_aside(self, name: str, rows: pl.DataFrame, emit: Emit) -> None:
        emit.to(LATE, rows.select("time", "msisdn"))

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        self.process_input("in", batch, state, emit)

    def process_input(self, name: str, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        waiting = state[EDRS if name == EDRS else EVENTS]
        late = times(batch, "time") < max(waiting.clock, NEVER + 1)
        if late.any():
            self.put_aside(name, batch.filter(pl.Series(late)), emit)
            batch = batch.filter(pl.Series(~late))
        if batch.height:
            waiting.append(batch)

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        clock = as_us(time)
        edrs, events = released(state[EDRS], clock), released(state[EVENTS], clock)
        state[EDRS].clock = state[EVENTS].clock = clock
        points = _Points.of(edrs, events, state)
        if points is not None:
            emit(self._signals(points, state))
        self._forget(clock - self.rules.window_us, state)

    def _signals(self, points: _Points, state: dict[str, Any]) -> pl.DataFrame:
        standings, quotas = state[STANDINGS], state[QUOTAS]
        found = np.empty((kernels.OUT, len(points.order)), np.int64)
        given = (points.order, points.edrs, points.standing, points.quota, points.figures)
        last = standings["time"], standings["plan"]
        figures = quotas["time"], quotas["used"], quotas["limit"], quotas["renews"], quotas["free_until"]
        rules = self.rules.window_us, float(self.rules.free)
        count = kernels.signals(*given, *last, *figures, quotas["sent"], *rules, found)
        found = found[:, :count]
        rows = found[kernels.QUOTA]
        quotas.touch(rows)
        keys = quotas.frame(rows)
        return pl.DataFrame(
            {
                "time": as_timestamps(found[kernels.TIME]),
                "signal": pl.Series(SIGNALS).gather(found[kernels.SIGNAL]),
                "msisdn": keys["msisdn"],
                "plan": state[PLANS].frame(keys["plan"].to_numpy())["plan"],
                "quota_limit": found[kernels.LIMIT],
                "quota_used": found[kernels.USED],
                "renews": as_timestamps(found[kernels.RENEWS]),
                "free_bytes": found[kernels.FREE],
            }
        )

    @staticmethod
    def _forget(bound: int, state: dict[str, Any]) -> None:
        """Let go of EDRs that no event can meet any more, and of quotas that have been renewed since."""
        standings, quotas = state[STANDINGS], state[QUOTAS]
        standings.remove(np.flatnonzero(standings["time"] < bound))
        quotas.remove(np.flatnonzero((quotas["time"] < bound) & (quotas["renews"] < bound)))


@dataclass(frozen=True, slots=True)
class _Points:
    """EDRs, then the events of subscribers that have one, and the order in which they happened."""

    order: Any
    edrs: int
    standing: Any
    quota: Any
    """The quota of an EDR; of an event the one that counted before all of these."""
    figures: Any
    """A column each: time, used, limit, renews, plan; of events the time alone."""

    @classmethod
    def of(
        cls, edrs: pl.DataFrame | None, events: pl.DataFrame | None, state: dict[str, Any]
    ) -> _Points | None:
        standings, quotas = state[STANDINGS], state[QUOTAS]
        standing, quota, figures = [], [], []
        if edrs is not None:
            # By value where the time is the same, so that the order of arrival does not show.
            edrs = edrs.sort("time", "renews", "quota_limit", "quota_used", "plan")
            plans = state[PLANS].rows(edrs)
            standing.append(standings.rows(edrs))
            quota.append(quotas.rows([edrs["msisdn"], pl.Series(plans)]))
            names = ("time", "quota_used", "quota_limit", "renews")
            figures.append(np.stack([*(edrs[name].to_physical().to_numpy() for name in names), plans]))
        if events is not None and len(standings):
            rows = standings.find(events)
            has_edr = np.flatnonzero(rows >= 0)
            rows, who = rows[has_edr], events["msisdn"].gather(has_edr)
            standing.append(rows)
            quota.append(quotas.find([who, pl.Series(standings["plan"][rows])]))
            figures.append(np.zeros((5, len(rows)), np.int64))
            figures[-1][0] = times(events, "time")[has_edr]
        if not standing:
            return None
        subscribers, moments = np.concatenate(standing), np.concatenate(figures, axis=1)
        order = np.lexsort((moments[0], subscribers))  # stable: EDRs stay before events
        count = edrs.height if edrs is not None else 0
        return cls(order, count, subscribers, np.concatenate(quota), moments)
