"""What must come out, by a plain walk through all events; slow, and easy to believe."""

from __future__ import annotations

import datetime as dt
from collections import deque

import polars as pl

from penstock.apps.flow_control.events import LIMIT, NOTICE, RELEASE, Thresholds
from penstock.frames.types import empty
from penstock.topology.schema import Schema


def notices(
    voice: pl.DataFrame, kpis: pl.DataFrame, cells: pl.DataFrame, thresholds: Thresholds
) -> pl.DataFrame:
    """The notices that these events deserve."""
    window = dt.timedelta(microseconds=thresholds.window_us)
    located = _located(voice, cells)
    found = []
    for bsc in sorted({*(bsc for _, bsc, _ in located), *kpis["bsc"]}):
        messages = sorted((time, size) for time, place, size in located if place == bsc)
        rates = sorted(kpis.filter(pl.col("bsc") == bsc).select("time", "voice_rate").iter_rows())
        moments = {time for time, _ in messages} | {time + window for time, _ in messages}
        moments |= {time for time, _ in rates}
        inside: deque[tuple[dt.datetime, int]] = deque()
        volume, rate, is_limited = 0, 0.0, False
        for now in sorted(moments):
            while messages and messages[0][0] <= now:
                inside.append(messages.pop(0))
                volume += inside[-1][1]
            while inside and inside[0][0] <= now - window:
                volume -= inside.popleft()[1]
            while rates and rates[0][0] <= now:
                rate = rates.pop(0)[1]
            is_over = rate > thresholds.t1 and volume > thresholds.t2
            if is_over != is_limited:
                is_limited = is_over
                found.append((now, bsc, LIMIT if is_over else RELEASE, rate, volume))
    return pl.DataFrame(found, schema=empty(Schema.of(NOTICE)).schema, orient="row")


def _located(voice: pl.DataFrame, cells: pl.DataFrame) -> list[tuple[dt.datetime, int, int]]:
    """Time, controller and size of each message whose cell was known when it was sent."""
    points = [(time, 0, place, bsc) for time, *place, bsc in cells.sort("time", "bsc").iter_rows()]
    points += [(row[0], 1, [*row[3:5]], row[2]) for row in voice.sort("time").iter_rows()]
    owner: dict[tuple[int, ...], int] = {}
    located = []
    for time, is_message, place, value in sorted(points, key=lambda point: point[:2]):
        if not is_message:
            owner[tuple(place)] = value
        elif tuple(place) in owner:
            located.append((time, owner[tuple(place)], value))
    return located
