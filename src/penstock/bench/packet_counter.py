"""Packets counted per second on a header trace: through Spark, by the bare kernel, and by nfstream."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.apps.packet_counter import topology
from penstock.bench.captures import repeated, seconds_per_epoch
from penstock.bench.harness import Settings
from penstock.errors import MissingExtra

PACKETS = 24_000_000
FLOWS = 10_000
SNAP_BYTES = 64
FILES = 8
WARM_UP = 3
KERNEL_ROUNDS = 5
OTHERS_PACKETS = 1_000_000


def run(settings: Settings) -> dict[str, float]:
    """The same trace three ways; nfstream gets a shorter one of the same kind."""
    traces = settings.directory / "traces"
    repeated(traces, FILES, lambda path: _write(path, PACKETS))
    top = topology(traces, directory=settings.directory / "out", bytes_per_epoch=PACKETS * (SNAP_BYTES + 16))
    ours = PACKETS / seconds_per_epoch(top, settings.directory, warm_up=WARM_UP)
    _check(settings.directory / "out")
    kernel = _kernel_rate(traces, settings)
    figures = {"packets_per_s": ours, "kernel_packets_per_s": kernel, "ratio_to_kernel": ours / kernel}
    short = settings.directory / "short.pcap"
    _write(short, OTHERS_PACKETS)
    theirs = _nfstream_rate(short)
    return {**figures, "nfstream_packets_per_s": theirs, "ratio_to_nfstream": ours / theirs}


def _write(path: Path, packets: int) -> None:
    from penstock.net.synth import write_headers

    write_headers(path, packets=packets, flows=FLOWS, snap_bytes=SNAP_BYTES)


def _check(out: Path) -> None:
    import polars as pl

    table = pl.read_delta(str(out / "totals"))
    counted = table.group_by("ip_version", "protocol", "reason").agg(pl.col("packets").max())["packets"].sum()
    if counted != PACKETS * FILES:
        raise AssertionError(f"{counted:,} packets were counted of {PACKETS * FILES:,}")


def _kernel_rate(traces: Path, settings: Settings) -> float:
    """The source's own reading and counting, in one process per core, with nothing around it."""
    from penstock.connect.source import Limit
    from penstock.net.pcap import Pcap

    source = Pcap(traces / "00.pcap", rows="counts", ends="drained")
    planner = source.planner(settings.directory)
    start = planner.initial()
    splits = [
        asdict(split) for split in planner.splits(start, planner.latest(start, Limit()), settings.cores)
    ]
    with multiprocessing.get_context("spawn").Pool(settings.cores) as pool:
        seconds = []
        for _ in range(WARM_UP + KERNEL_ROUNDS):
            began = time.perf_counter()
            counted = sum(pool.starmap(_count, [(source, split) for split in splits], chunksize=1))
            seconds.append(time.perf_counter() - began)
            if counted != PACKETS:
                raise AssertionError(f"the kernel counted {counted:,} packets of {PACKETS:,}")
    return PACKETS / statistics.median(seconds[WARM_UP:])


def _count(source: Any, split: dict[str, Any]) -> int:
    from penstock.connect.source import Split

    return sum(int(batch.rows["packets"].sum()) for batch in source.read(Split(**split), _refuse))


def _refuse(bad: Any) -> None:
    raise AssertionError(f"the trace holds a bad record: {bad}")


def _nfstream_rate(trace: Path) -> float:
    """nfstream's flows without dissection, on all cores."""
    try:
        from nfstream import NFStreamer
    except ImportError:
        raise MissingExtra(what="this comparison", package="nfstream", extra="dpi") from None
    began = time.perf_counter()
    streamer = NFStreamer(source=str(trace), n_dissections=0, statistical_analysis=False)
    seen = sum(flow.bidirectional_packets for flow in streamer)
    if seen != OTHERS_PACKETS:
        raise AssertionError(f"nfstream saw {seen:,} packets of {OTHERS_PACKETS:,}")
    return OTHERS_PACKETS / (time.perf_counter() - began)
