"""The whole way of captures through `penstock.net`, with what must hold whatever the bytes are."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock import net
from penstock.net._layout import MOST_TUNNELS, REASONS
from penstock.net.capture import END, HEAD_BYTES, Block, Resume, Walk, read_header
from penstock.net.columns import TYPES
from penstock.net.counting import Counter
from penstock.net.decoding import decode_block
from penstock.net.dpi import Choice
from penstock.net.feeds import BytesFeed
from penstock.net.inspection import inspect
from penstock.net.opening import opened
from penstock.topology.schema import Schema
from tests.net.rows import Kept

_ALL = tuple(TYPES)
_WHOLE_FILE = 1 << 40


class _Emitted(Kept):
    """Keeps what an operator emits; of its columns none is promised."""

    def columns(self, output: str = "out") -> Schema:
        return Schema()


@dataclass(frozen=True, slots=True)
class Followed:
    """How much was found in some captures."""

    packets: int = 0
    flows: int = 0
    stream_bytes: int = 0
    control: int = 0


def follow(captures: Sequence[bytes], engines: Sequence[Choice], *, tail: int = 0) -> Followed:
    """Lead captures through everything that reads wire bytes; the operators see all of them as one input.

    With ``tail``, so many last packets of each capture come in small epochs at the end: much state meets
    few rows, which is where sizes that are derived from the rows alone are too small.
    Raises AssertionError where a promise is broken, and whatever else a bug raises.
    """
    blocks = [(number, block) for number, capture in enumerate(captures) for block in _walked(capture)]
    if not blocks:
        return Followed()
    block = _together([block for _, block in blocks])
    packets = decode_block(block, _ALL)
    assert packets.height == len(block)
    _check_counts(captures, packets)
    # Each capture in a VLAN of its own: else all would be in the few flows of the seeds.
    owners = np.repeat([number for number, _ in blocks], [len(block) for _, block in blocks])
    packets = packets.with_columns(vlan=pl.Series(owners % 4096).cast(pl.UInt16))
    epochs = _with_tail(packets, owners, tail) if tail else _halves(packets)
    whole = _defragmented(epochs)
    streams = _ran(net.TcpStreams(), [net.tcp_segments(rows) for rows in whole])
    flows = _ran(net.Flows(), [net.flow_key(rows) for rows in whole])
    _check_flows(whole, flows)
    for engine in engines:
        judged = _ran(net.Applications(engine=engine), [net.application_key(rows) for rows in whole])
        _check_flows(whole, judged)
    control = net.control_messages(packets)
    _check_subscribers(packets, _joined(_ran(net.GtpTunnels(), _halves(control))))
    assert net.gb_frames(packets).height == packets.height
    parts = [net.gb_segments(rows) for rows in epochs]
    joined = _joined(_ran(net.JoinSegments(), parts))
    assert joined.height <= sum(part.height for part in parts)
    data = _joined(streams)
    stream_bytes = int(data["data"].bin.size().sum()) if data.width else 0
    return Followed(packets.height, _joined(flows).height, stream_bytes, control.height)


def inspect_as_file(capture: bytes, folder: Path) -> None:
    """Write a capture to a file, plain and compressed, and look into it as the command line does."""
    path = folder / "inspected.pcap"
    path.write_bytes(capture)
    found = inspect(path)
    assert found.packets == sum(tally.packets for tally in found.link_types)
    assert found.damaged >= len(found.damage)
    if found.format != "unknown":
        with opened(str(path)) as (walk, _):
            assert sum(len(block) for block in walk.blocks()) == found.packets
    path.write_bytes(gzip.compress(capture, 1))
    assert inspect(path).packets == found.packets


def _walked(capture: bytes) -> Iterator[Block]:
    """The blocks of a capture, taken out of the walk's buffers."""
    header = read_header(capture[:HEAD_BYTES])
    if header is None:
        return
    feed = BytesFeed(iter([capture[HEAD_BYTES:]]))
    for block in Walk(header, feed, base=0, held=capture[:HEAD_BYTES]).blocks():
        for fault in block.faults:
            assert 0 <= fault.begin <= fault.end <= len(capture)
        if len(block):
            ends = block.places[1] + block.lengths[0]
            assert ends.max() <= len(capture)
            data = block.data[: int(ends.max())].copy()
            yield Block(data, block.places.copy(), block.lengths.copy(), block.kinds.copy(), (), block.resume)


def _together(blocks: Sequence[Block]) -> Block:
    starts = np.cumsum([0, *(len(block.data) for block in blocks)])
    places = [block.places.copy() for block in blocks]
    for part, start in zip(places, starts, strict=False):
        part[1] += start
    return Block(
        np.concatenate([block.data for block in blocks]),
        np.concatenate(places, axis=1),
        np.concatenate([block.lengths for block in blocks], axis=1),
        np.concatenate([block.kinds for block in blocks], axis=1),
        (),
        Resume(0),
    )


def _halves(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Two epochs."""
    middle = rows.height // 2
    return [rows[:middle], rows[middle:]]


def _with_tail(rows: pl.DataFrame, owners: Any, tail: int) -> list[pl.DataFrame]:
    """The heads of all captures in three epochs, then their last rows in epochs of 1, 2, 4 … rows."""
    ends = np.searchsorted(owners, owners, side="right")
    is_tail = pl.Series(ends - np.arange(len(owners)) <= tail)
    heads, tails = rows.filter(~is_tail), rows.filter(is_tail)
    third = -(-heads.height // 3)
    edges = [0, *(2**n - 1 for n in range(1, 32) if 2**n - 1 < tails.height), tails.height]
    return [*heads.iter_slices(max(third, 1)), *(tails[a:b] for a, b in pairwise(edges))]


def _ran(operator: Any, epochs: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """What an operator gives in each epoch, and at the end of the input.

    Behind the first one comes a punctuation that some rows of it are behind.
    """
    state, made = operator.init_state(), []
    for number, rows in enumerate(epochs):
        kept = _Emitted()
        operator.process(rows, state, kept)
        if number == 0 and (time := rows["time"].drop_nulls().median()) is not None:
            operator.on_punctuation(time, state, kept)
        made.append(_joined(kept.made.get("out", [])))
    kept = _Emitted()
    operator.on_punctuation(dt.datetime.max, state, kept)
    return [*made, _joined(kept.made.get("out", []))]


def _joined(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts or [pl.DataFrame()], how="diagonal_relaxed")


def _check_counts(captures: Sequence[bytes], packets: pl.DataFrame) -> None:
    """What is only counted, straight from the bytes, is the sum of the rows."""
    counter = Counter(_WHOLE_FILE, MOST_TUNNELS)
    for capture in captures:
        if header := read_header(capture[:HEAD_BYTES]):
            walk = Walk.over(header, np.frombuffer(capture, np.uint8), header.begin)
            for _ in counter.count(walk, END):
                pass
    counted = pl.concat([rows for _, rows in counter.take()])
    counted = counted.group_by("reason").agg(pl.col("packets", "captured_bytes").sum())
    rows = packets.group_by("reason").agg(
        packets=pl.len().cast(pl.Int64), captured_bytes=pl.col("captured").cast(pl.Int64).sum()
    )
    assert counted.sort("reason").equals(rows.sort("reason"))
    assert packets["reason"].max() < len(REASONS)  # type: ignore[operator]
    assert (
        packets["payload_offset"] <= packets.select(pl.max_horizontal("captured", "length")).to_series()
    ).all()


def _defragmented(epochs: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    is_part = (pl.col("fragment_offset") > 0) | (pl.col("more_fragments") > 0)
    timed = [rows.filter(pl.col("time").is_not_null()) for rows in epochs]
    made = _ran(net.Defragment(), timed)
    whole = [rows if rows.width else timed[0].clear() for rows in made]
    untouched = sum(rows.filter(~is_part).height for rows in timed)
    assert untouched <= sum(rows.height for rows in whole) <= sum(rows.height for rows in timed)
    return whole


def _check_flows(packets: Sequence[pl.DataFrame], made: Sequence[pl.DataFrame]) -> None:
    """Every IP packet with a time is in exactly one flow."""
    flows, counted = _joined(made), 0
    if flows.width:
        counted = int(flows["src2dst_packets"].sum()) + int(flows["dst2src_packets"].sum())
    expected = pl.concat(packets).filter((pl.col("ip_version") > 0) & pl.col("time").is_not_null())
    assert counted == expected.height


def _check_subscribers(packets: pl.DataFrame, tunnels: pl.DataFrame) -> None:
    operator = net.Subscribers()
    state, kept = operator.init_state(), _Emitted()
    timed = packets.filter(pl.col("time").is_not_null())
    if tunnels.width:
        operator.process_input("tunnels", tunnels, state, kept)
    operator.process_input("in", timed, state, kept)
    operator.on_punctuation(dt.datetime.max, state, kept)
    assert sum(rows.height for rows in kept.made.get("out", [])) == timed.height
