"""What slow-paths must find, worked out one ping after the other: for tests, not for speed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]


def verdicts(
    pings: Iterable[Row], loads: Iterable[Row], *, slow_ms: float, busy_load: float, within: dt.timedelta
) -> Iterator[tuple[dt.datetime, str, str, float | None, float | None, str]]:
    """Time, source, target, round trip, greatest load near it, and cause of each slow ping."""
    readings: dict[str, list[Row]] = {}
    for reading in loads:
        readings.setdefault(reading["server"], []).append(reading)
    for ping in pings:
        if ping["rtt_ms"] is not None and ping["rtt_ms"] < slow_ms:
            continue
        near = [
            r["load"] for r in readings.get(ping["target"], ()) if abs(r["time"] - ping["time"]) <= within
        ]
        load = max(near, default=None)
        cause = "unknown" if load is None else "busy" if load >= busy_load else "network"
        yield ping["time"], ping["source"], ping["target"], ping["rtt_ms"], load, cause
