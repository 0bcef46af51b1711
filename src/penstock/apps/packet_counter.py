"""The packet counter: how many packets and bytes of each protocol captures hold, or an interface sees.

SAND's first experiment. The source decodes and adds up while it reads, so only counts travel through Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps
from penstock import net
from penstock.control.live_table import LiveTable

KEY = {"ip_version": "uint8", "protocol": "uint8", "reason": "uint8"}
EPOCH_BYTES = 1 << 30
SUMS = ("packets", "bytes", "captured_bytes")
LIVE = LiveTable(
    title="packets by IP version, protocol and what is wrong with them",
    sink="table",
    key=tuple(KEY),
    columns=(*KEY, "packets", "bytes"),
    order_by="packets",
    shares=("packets", "bytes"),
)


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
    interface: str | None = None,
    bpf: str | None = None,
    follow: bool = False,
    directory: Path | str = "out/packets",
    bytes_per_epoch: int = EPOCH_BYTES,
) -> ps.Topology:
    """The topology: captures or an interface, totals, a table.

    ``follow`` waits for more when all captures have been read; ``bpf`` is a filter for the interface.
    """
    top = ps.Topology("packet-counter")
    source: net.Interface | net.Pcap
    if interface is not None:
        source = net.Interface(interface, rows="counts", bpf=bpf)
    else:
        source = net.Pcap(captures, rows="counts", ends="never" if follow else "drained")
    counts = top.source("captures", source, bytes_per_epoch=bytes_per_epoch)
    # A few hundred keys at most: more slices would only cost.
    totals = counts.key_by(*KEY).process("totals", Totals(), parallelism=1)
    totals.sink("table", ps.Delta(f"{directory}/totals"))
    return top
