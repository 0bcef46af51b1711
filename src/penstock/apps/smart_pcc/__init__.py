"""Smart policy and charging control: subscribers who stream video learn in time that their quota runs out.

SAND, section 5.1. Accounting sends event data records (EDR), probes send streaming events; signals a, b and c
go to the real-time decision component, each once for a subscriber's quota.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import polars as pl

import penstock as ps
from penstock.apps.smart_pcc.generated import Network
from penstock.apps.smart_pcc.joiner import Joiner
from penstock.apps.smart_pcc.rules import EDR, SIGNALS, STREAMING, Rules
from penstock.connect.source import Source
from penstock.control.live_table import LiveTable
from penstock.errors import BadArgument

SLICES = 24
COUNTS = ("a", "b", "c", "free_bytes")
LIVE = LiveTable(
    title="subscribers that were told, by plan",
    sink="per-plan",
    key=("plan",),
    columns=("plan", *COUNTS),
    order_by="a",
)


class PerPlan(ps.Operator):
    """Keep how many signals each plan has caused, and emit what changed."""

    returns = {"plan": str, **dict.fromkeys(COUNTS, int)}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"plan": str}, values=dict.fromkeys(COUNTS, int))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch)
        for signal in SIGNALS:
            state.add(signal, rows, (batch["signal"] == signal).cast(pl.Int64))
        state.add("free_bytes", rows, batch["free_bytes"])
        emit(state.frame(state.changed()))


def topology(
    edrs: Path | str | None = None,
    events: Path | str | None = None,
    *,
    format: Literal["jsonl", "csv", "parquet"] = "jsonl",
    lateness: str = "0s",
    follow: bool = False,
    near: float = 0.9,
    free: float = 0.1,
    window: str = "15m",
    subscribers: int = 100_000,
    rows: int = 20_000_000,
    rate: int | None = 200_000,
    seed: int = 1,
    rows_per_epoch: int | None = None,
    notify: str | None = None,
    directory: Path | str = "out/smart-pcc",
) -> ps.Topology:
    """The topology; without files it runs on ``rows`` generated tuples of ``subscribers``.

    ``near`` is the part of the quota at which a subscriber is warned, ``free`` the part of it that signal b
    grants, ``window`` how long an EDR counts. ``follow`` waits for further files. ``notify`` is the address
    of a decision component that gets the signals too.
    """
    rules = Rules(near=near, free=free, window=window)
    if (edrs is None) != (events is None):
        given, missing = ("EDRS", "EVENTS") if events is None else ("EVENTS", "EDRS")
        raise BadArgument(
            where="smart-pcc",
            what=missing,
            got=f"none beside {given}",
            allowed="folders for both, or neither",
        )
    shares: tuple[int | None, int | None] = (rows_per_epoch, rows_per_epoch)
    sources: tuple[Source, Source]
    if edrs is not None and events is not None:
        ends: Literal["never", "drained"] = "never" if follow else "drained"
        files = partial(ps.Files, format=format, time="time", lateness=lateness, ends=ends)
        sources = files(edrs, schema=EDR), files(events, schema=STREAMING)
    else:
        network = Network(subscribers=subscribers, rows=rows, seed=seed)
        sources = network.sources(rate)
        shares = network.shares(rows_per_epoch or rate or rows)
    top = ps.Topology("smart-pcc")
    edr = top.source("edr-spout", sources[0], rows_per_epoch=shares[0])
    near_quota = edr.filter("edr-adapter", rules.is_near())
    stream = top.source("streaming-spout", sources[1], rows_per_epoch=shares[1])
    who = stream.flat_map("who-streams", lambda batch: batch.select("time", "msisdn"))
    joined = who.key_by("msisdn").process(
        "joiner", Joiner(rules), also={"edrs": near_quota.key_by("msisdn")}, parallelism=SLICES
    )
    joined.sink("signals", ps.JsonLines(f"{directory}/signals"))
    if notify is not None:
        joined.sink("notify", ps.Http(notify))
    joined.output("late").sink("late", ps.Delta(f"{directory}/late"))
    # A quota comes from elsewhere and may be any number: one that does not fit the total is put aside.
    plans = joined.key_by("plan").process("plans", PerPlan(), parallelism=1, on_error="dead-letter")
    plans.sink("per-plan", ps.Delta(f"{directory}/per-plan"))
    return top
