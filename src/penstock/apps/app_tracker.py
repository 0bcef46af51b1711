"""The application tracker: which applications the traffic of captures belongs to, and how much each takes.

The pipeline of SAND: captures, decoding (through GTP-U and other tunnels), inspection of the first packets of
each flow, totals per application.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps
from penstock import net

EPOCH_BYTES = 256 << 20
SUMS = ("packets", "bytes", "flows")
NEEDED = (
    "time", "length", "ip_version", "protocol", "tcp_flags", "vlan", "tunnel", "tunnel_id",
    "src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low", "src_port", "dst_port",
    "payload_offset", "payload_length", "tcp_seq", "tcp_ack", "icmp_type", "icmp_code", "packet",
)  # fmt: skip


class Shares(ps.Operator):
    """Keep totals per application and emit those that changed."""

    returns = {"application": str, **dict.fromkeys(SUMS, int)}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"application": str}, values=dict.fromkeys(SUMS, int))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch)
        for name in SUMS:
            state.add(name, rows, batch[name].cast(pl.Int64))
        emit(state.frame(state.changed()))


def topology(
    captures: Path | str = "captures",
    *,
    directory: Path | str = "out/applications",
    bytes_per_epoch: int = EPOCH_BYTES,
) -> ps.Topology:
    """The topology: captures, flows with their application, totals per application, two tables."""
    top = ps.Topology("app-tracker")
    source = net.Pcap(captures, columns=NEEDED, ends="drained")
    packets = top.source("captures", source, bytes_per_epoch=bytes_per_epoch)
    keyed = packets.flat_map("conversation", net.application_key).key_by(*net.FLOW_KEY)
    flows = keyed.process("applications", net.Applications())
    flows.sink("flows", ps.Delta(f"{directory}/flows"))
    shares = flows.output("shares").key_by("application").process("shares", Shares(), parallelism=1)
    shares.sink("totals", ps.Delta(f"{directory}/shares"))
    return top
