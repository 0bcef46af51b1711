"""What must come out, by a plain walk through all events; slow, and easy to believe."""

from __future__ import annotations

from typing import Any

import polars as pl

from penstock.apps.smart_pcc.rules import SIGNAL, Rules
from penstock.frames.types import empty
from penstock.topology.schema import Schema


def signals(edrs: pl.DataFrame, events: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The signals that these EDRs and streaming events deserve, in the order of time."""
    ordered = edrs.filter(rules.is_near()).sort("time", "renews", "quota_limit", "quota_used", "plan")
    points = [(row["time"], 0, row) for row in ordered.iter_rows(named=True)]
    points += [(row["time"], 1, row) for row in events.sort("time").iter_rows(named=True)]
    last: dict[int, dict[str, Any]] = {}
    sent: dict[tuple[Any, ...], set[str]] = {}
    free_until: dict[tuple[Any, ...], int] = {}
    found = []
    for time, is_event, row in sorted(points, key=lambda point: point[:2]):
        if not is_event:
            last[row["msisdn"]] = row
            continue
        edr = last.get(row["msisdn"])
        if edr is None or (time - edr["time"]).total_seconds() * 1e6 > rules.window_us:
            continue
        quota = tuple(edr[name] for name in ("msisdn", "plan", "quota_limit", "renews"))
        done = sent.setdefault(quota, set())
        if edr["quota_used"] < edr["quota_limit"]:
            signal = "a"
        elif "b" not in done:
            signal = "b"
        elif edr["quota_used"] >= free_until[quota]:
            signal = "c"
        else:
            continue
        if signal in done:
            continue
        done.add(signal)
        granted = int(edr["quota_limit"] * rules.free) if signal == "b" else 0
        if signal == "b":
            free_until[quota] = edr["quota_used"] + granted
        found.append({**edr, "time": time, "signal": signal, "free_bytes": granted})
    return pl.DataFrame(found, schema=empty(Schema.of(SIGNAL)).schema)
