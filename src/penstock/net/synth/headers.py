"""Header traces for benchmarks: as many packets and flows at once as one likes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from penstock.errors import BadArgument
from penstock.net.synth import _settings as s
from penstock.net.synth._headers import MOST_SNAP, describe_flows, fill_headers
from penstock.net.synth.catalogue import Table
from penstock.net.synth.filling import Buffers
from penstock.net.synth.traffic import Traffic
from penstock.net.synth.truth import seen_columns
from penstock.net.synth.writing import FORMS, CaptureFile, Format, file_header, format_of

MOST_FLOWS = 1 << 24
LEAST_SNAP = 54
_MAPPED = 0xFFFF_0000_0000


@dataclass(frozen=True, slots=True, eq=False)
class HeaderTruth:
    """What was written; ``flows`` has the columns of `net.Flows`, in the order of the flows' numbers."""

    packets: int
    bytes: int
    flows: pl.DataFrame


def write_headers(
    path: str | os.PathLike[str],
    *,
    packets: int,
    flows: int,
    snap_bytes: int = MOST_SNAP,
    rate: float = 1_000_000,
    form: Format | None = None,
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    seed: int = 0,
) -> HeaderTruth:
    """Write a trace of TCP and UDP packets in IPv4, cut at ``snap_bytes``; every packet's flow is drawn anew.

    So all ``flows`` go on at once, as far as there are packets for them. ``rate`` is packets per second of
    the times in the trace. Checksums hold for payloads of zeros, which are not in the trace.
    """
    for what, value, least, most in (
        ("packets", packets, 0, 1 << 40),
        ("flows", flows, 1, MOST_FLOWS),
        ("snap_bytes", snap_bytes, LEAST_SNAP, MOST_SNAP),
    ):
        if not least <= value <= most:
            allowed = f"a number from {least} to {most}"
            raise BadArgument(where="synth.write_headers", what=what, got=repr(value), allowed=allowed)
    start_us = Traffic(rate=rate, start=start, seed=seed).start_us
    target = Path(path)
    chosen = format_of(target, form, "synth.write_headers")
    settings = np.zeros(s.SETTINGS, np.int64)
    settings[[s.SEED, s.SNAP_BYTES, s.FORMAT, s.START_US]] = seed, snap_bytes, FORMS[chosen], start_us
    sent, seen = np.zeros((flows, 2), np.int64), np.zeros((flows, s.SEEN), np.int64)
    n, buffers = 0, Buffers()
    with CaptureFile(target, file_header(chosen, snap_bytes)) as file:
        while n < packets:
            buffer = buffers.next()
            n, size = fill_headers(n, packets, flows, rate, settings, sent, seen, buffer)
            file.append(buffer[:size])
    total = int(seen[:, s.UP_BYTES].sum() + seen[:, s.DOWN_BYTES].sum())
    return HeaderTruth(packets, total, _rows(seed, seen, start_us))


def _rows(seed: int, seen: Table, start_us: int) -> pl.DataFrame:
    kept = np.flatnonzero(seen[:, s.UP_PACKETS])
    known = np.zeros((len(kept), 5), np.int64)
    describe_flows(seed, kept, known)
    zero = np.zeros(len(kept), np.uint64)
    columns = {
        "src_ip_high": zero, "src_ip_low": (_MAPPED | known[:, 0]).astype(np.uint64),
        "src_port": known[:, 1].astype(np.uint16),
        "dst_ip_high": zero, "dst_ip_low": (_MAPPED | known[:, 2]).astype(np.uint64),
        "dst_port": known[:, 3].astype(np.uint16), "protocol": known[:, 4].astype(np.uint8),
    }  # fmt: skip
    return pl.DataFrame({**columns, **seen_columns(seen[kept], start_us)})
