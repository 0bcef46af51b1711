"""Packets counted per second on a header trace: through Spark, by the bare kernel, and by nfstream."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from pathlib import Path

from penstock.apps.packet_counter import topology
from penstock.bench.captures import repeated, seconds_per_epoch
from penstock.bench.harness import Settings
from penstock.errors import MissingExtra

PACKETS = 6_250_000
FLOWS = 10_000
SNAP_BYTES = 64
FILE_BYTES = 24 + PACKETS * (SNAP_BYTES + 16)
FILES_PER_EPOCH = 8
EPOCHS = 9
WARM_UP = 3
KERNEL_ROUNDS = 5
OTHERS_PACKETS = 1_000_000


def run(settings: Settings) -> dict[str, float]:
    """The same trace three ways; nfstream gets a shorter one of the same kind."""
    traces = settings.directory / "traces"
    repeated(traces, FILES_PER_EPOCH * EPOCHS, lambda path: _write(path, PACKETS))
    out = settings.directory / "out"
    top = topology(traces, directory=out, bytes_per_epoch=FILE_BYTES * FILES_PER_EPOCH)
    seconds = seconds_per_epoch(top, settings.directory, warm_up=WARM_UP)
    ours = PACKETS * FILES_PER_EPOCH / seconds
    _check(out)
    kernel = _kernel_rate(traces, settings.cores)
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
    if counted != PACKETS * FILES_PER_EPOCH * EPOCHS:
        raise AssertionError(f"{counted:,} packets were counted of {PACKETS * FILES_PER_EPOCH * EPOCHS:,}")


def _kernel_rate(traces: Path, cores: int) -> float:
    """The counting kernel over the files of an epoch, in one process per core, with nothing around it."""
    files = sorted(map(str, traces.iterdir()))[:FILES_PER_EPOCH]
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        seconds = []
        for _ in range(WARM_UP + KERNEL_ROUNDS):
            began = time.perf_counter()
            counted = sum(pool.map(_count, files, chunksize=1))
            seconds.append(time.perf_counter() - began)
            if counted != PACKETS * FILES_PER_EPOCH:
                raise AssertionError(
                    f"the kernel counted {counted:,} of {PACKETS * FILES_PER_EPOCH:,} packets"
                )
    return PACKETS * FILES_PER_EPOCH / statistics.median(seconds[WARM_UP:])


def _count(path: str) -> int:
    from penstock.net._layout import MOST_TUNNELS
    from penstock.net.capture import END
    from penstock.net.counting import Counter
    from penstock.net.opening import mapped_walk
    from penstock.net.pieces import STRETCH_BYTES

    walk = mapped_walk(path, FILE_BYTES, None, is_open=False)
    assert walk is not None
    counter = Counter(STRETCH_BYTES, MOST_TUNNELS)
    for faults in counter.count(walk, END):
        assert not faults, "the trace is sound"
    return sum(int(rows["packets"].sum()) for _, rows in counter.take())


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
