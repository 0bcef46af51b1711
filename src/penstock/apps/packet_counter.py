"""The packet counter: how many packets and bytes of each protocol a set of captures holds.

SAND's first experiment. The source decodes and adds up while it reads, so only counts travel through Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps
from penstock import net

KEY = {"ip_version": "uint8", "protocol": "uint8", "reason": "uint8"}
EPOCH_BYTES = 1 << 30
SUMS = ("packets", "bytes", "captured_bytes")


class Totals(ps.Operator):
    """Keep totals per protocol and emit those that changed."""

    returns = {**KEY, **dict.fromkeys(SUMS, int)}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key=KEY, values=dict.fromkeys(SUMS, int))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch.select(*KEY))
        for name in SUMS:
            state.add(name, rows, batch[name])
        emit(state.frame(state.changed()))


def topology(
    captures: Path | str = "captures",
    *,
    directory: Path | str = "out/packets",
    bytes_per_epoch: int = EPOCH_BYTES,
) -> ps.Topology:
    """The topology: captures, totals, a table."""
    top = ps.Topology("packet-counter")
    source = net.Pcap(captures, rows="counts", ends="drained")
    counts = top.source("captures", source, bytes_per_epoch=bytes_per_epoch)
    totals = counts.key_by(*KEY).process("totals", Totals())
    totals.sink("table", ps.Delta(f"{directory}/totals"))
    return top
