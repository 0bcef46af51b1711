"""Packets decoded to full rows, exchanged by flow, with a flow table kept."""

from __future__ import annotations

from pathlib import Path

import penstock as ps
from penstock import net
from penstock.bench.captures import repeated
from penstock.bench.harness import Settings
from penstock.bench.workload import rate, run_through

PACKETS = 16_000_000
FLOWS = 100_000
SNAP_BYTES = 64
FILES = 7
WARM_UP = 3


def run(settings: Settings) -> dict[str, float]:
    """An epoch is about a file; every packet must be in a flow at the end."""
    traces = settings.directory / "traces"
    repeated(traces, FILES, _write)
    top = ps.Topology("decode-flows")
    source = net.Pcap(traces, ends="drained")
    packets = top.source("captures", source, bytes_per_epoch=PACKETS * (SNAP_BYTES + 16))
    keyed = packets.flat_map("conversation", net.flow_key).key_by(*net.FLOW_KEY)
    keyed.process("flows", net.Flows()).sink("table", ps.Delta(str(settings.directory / "flows")))
    epochs = run_through(top, settings.directory)
    _check(settings)
    return {"packets_per_s": rate(epochs[:-1], warm_up=WARM_UP)}  # the last one takes what is left


def _write(path: Path) -> None:
    from penstock.net.synth import write_headers

    write_headers(path, packets=PACKETS, flows=FLOWS, snap_bytes=SNAP_BYTES)


def _check(settings: Settings) -> None:
    import polars as pl

    flows = pl.read_delta(str(settings.directory / "flows"))
    seen = sum(int(flows[name].sum()) for name in ("src2dst_packets", "dst2src_packets"))
    if seen != PACKETS * FILES:
        raise AssertionError(f"{seen:,} packets are in flows of {PACKETS * FILES:,}")
