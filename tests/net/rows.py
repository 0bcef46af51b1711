"""Packets as the rows that `net.Pcap` gives with all columns, and a way to run one operator on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock.net.capture import Block, Resume
from penstock.net.columns import TYPES
from penstock.net.decoding import decode_block
from penstock.net.opening import opened
from penstock.operators.operator import Operator
from penstock.testing.operators import Story, Way
from penstock.topology.schema import Schema

START = dt.datetime(2024, 1, 1)
ALL = tuple(TYPES)


def moment(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def in_bursts(count: int, jitter: float = 0) -> list[float]:
    """Seconds of so many packets: a hundred within 10 ms, then a pause; late by up to the jitter."""
    return [i // 100 * 0.1 + i % 100 * 0.0001 + i * 7919 % 100 / 100 * jitter for i in range(count)]


def clocks(rows: pl.DataFrame, cuts: Sequence[int], jitter: float = 0) -> list[dt.datetime | None]:
    """Punctuations at the cuts that promise as much as they can."""
    latest = rows["time"].cum_max()
    return [latest[cut - 1] - dt.timedelta(seconds=jitter) if cut else None for cut in sorted(cuts)]


def rows_of(packets: Sequence[bytes], seconds: Sequence[float] | None = None, link: int = 1) -> pl.DataFrame:
    """Packets one millisecond apart, unless their times are given."""
    when = [i / 1000 for i in range(len(packets))] if seconds is None else seconds
    start_ns = int(START.replace(tzinfo=dt.UTC).timestamp()) * 10**9
    sizes = np.array([len(packet) for packet in packets], np.int64)
    begins = np.cumsum(sizes) - sizes
    times = start_ns + (np.array(when) * 1e6).round().astype(np.int64) * 1000
    block = Block(
        np.frombuffer(b"".join(packets), np.uint8),
        np.stack([begins, begins, times]),
        np.stack([sizes, sizes]).astype(np.uint32),
        np.stack([sizes * 0, sizes * 0 + link]).astype(np.uint32),
        (),
        Resume(0),
    )
    return decode_block(block, ALL)


def rows_in(path: Path) -> pl.DataFrame:
    """All packets of a capture."""
    with opened(str(path)) as (walk, _):
        return pl.concat([rows_of([]), *(decode_block(block, ALL) for block in walk.blocks() if len(block))])


def told(
    operator: Operator,
    rows: pl.DataFrame,
    cuts: Sequence[int] = (),
    punctuations: Sequence[dt.datetime | None] = (),
) -> dict[str, pl.DataFrame]:
    """What an operator gives for rows cut into epochs at these places, with its state saved in between."""
    edges = [0, *sorted(cuts), rows.height]
    epochs: list[Any] = [{"in": rows[a:b]} for a, b in pairwise(edges)]
    return Story(lambda: operator, epochs, punctuations).run(Way(keep_decoded=False)).rows


class Kept:
    """Keeps what an operator emits."""

    def __init__(self) -> None:
        self.made: dict[str, list[pl.DataFrame]] = {}

    def __call__(self, rows: pl.DataFrame) -> None:
        self.to("out", rows)

    def to(self, output: str, rows: pl.DataFrame) -> None:
        self.made.setdefault(output, []).append(rows)

    def columns(self, output: str = "out") -> Schema:
        raise AssertionError("not asked for")
