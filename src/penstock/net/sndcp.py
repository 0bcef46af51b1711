"""Segments of SNDCP, the packet layer of the Gb interface, to the packets that they were.

packets.flat_map("segments", net.gb_segments).key_by(*net.SEGMENT_KEY).process("whole", net.JoinSegments())
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument
from penstock.net._layout import FIRST_SEGMENT, LATER_SEGMENT, MOST_TUNNELS
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

    from penstock.operators.timed_rows import TimedRows

_KEY = {
    **dict.fromkeys(("link_src_high", "link_src_low", "link_dst_high", "link_dst_low"), "uint64"),
    "tlli": "uint32",
    "nsapi": "uint8",
    "npdu": "uint16",
}
SEGMENT_KEY = tuple(_KEY)
"""What the segments of a packet have in common: link and direction, subscriber, the packet's number.

Packets are numbered from 0 to 4095 again and again: a first segment begins a new one."""
SEGMENT_NEEDS = ("time", "packet", "captured", "length", "link_type", "reason", "tunnel_depth")
_PART = {"segment": "uint8", "is_first": "bool", "has_more": "bool"}
_UNIT = (*SEGMENT_KEY, "run")
"""A packet: between two that have the same number there is a first segment."""
_OVERHEAD = 256
_INCOMPLETE = "incomplete"
_USED, _NO_FIRST, _MISSING, _NO_MEMORY = "", "first segment missing", "segments missing", "no memory"


def is_segment() -> pl.Expr:
    """Whether a packet is one that `gb_segments` takes: a segment, captured whole and in no other tunnel."""
    import polars as pl

    depth = pl.when(pl.col("reason") == FIRST_SEGMENT).then(1).when(pl.col("reason") == LATER_SEGMENT).then(0)
    is_whole = (pl.col("captured") >= pl.col("length")) & pl.col("time").is_not_null()
    return (is_whole & (pl.col("tunnel_depth") == depth)).fill_null(value=False)


def gb_segments(packets: pl.DataFrame) -> pl.DataFrame:
    """The segments among packets, as rows for `JoinSegments`; needs `SEGMENT_NEEDS`.

    The column ``packet`` is the segment alone. One that was not captured as a whole stays the packet that it
    is: the one that it belongs to will lack it.
    """
    import numpy as np
    import polars as pl

    from penstock.frames._jit import readonly
    from penstock.frames.hashing import byte_buffers
    from penstock.frames.types import polars_type
    from penstock.net import _sndcp as k

    chosen = packets.filter(is_segment())
    ends, data = byte_buffers(chosen["packet"])
    lengths, links = (chosen[name].to_numpy() for name in ("length", "link_type"))
    found = np.zeros((k.OUT, chosen.height), np.int64)
    k.segments(data, ends, readonly(lengths), readonly(links), found)
    kinds = {**_KEY, **_PART}
    told = pl.DataFrame({name: found[place] for place, name in enumerate(kinds)}).with_columns(
        *(pl.Series(name, found[place].view(np.uint64)) for place, name in enumerate(SEGMENT_KEY[:4])),
    )
    alone = pl.col("packet").bin.slice(
        pl.lit(pl.Series(found[k.BEGIN])), pl.lit(pl.Series(found[k.END] - found[k.BEGIN]))
    )
    return (
        chosen.with_columns(alone, *told)
        .filter(pl.Series(found[k.NUMBER] >= 0))
        .with_columns(pl.col(name).cast(polars_type(kind)) for name, kind in kinds.items())
    )


@dataclass(frozen=True, init=False)
class JoinSegments(Operator):
    """Give a packet when the last of its segments has come; takes the rows of `gb_segments`.

    The packet has the columns of the capture and is as if it had come in one frame: its bytes are the inner
    packet alone (link type 101), its time is that of the segment that completed it, its columns of link and
    tunnel are those of the first segment. A segment that comes twice counts once.

    The first segment comes first, the others in any order (3GPP 44.065 lets a receiver drop what is not in
    order). A packet is given up when it is not complete ``timeout`` after its first segment, when a
    new packet with its number begins, and when a slice holds more than ``slice_bytes`` (256 bytes are
    counted for each segment besides its own): then the oldest. All that is given up goes to the output
    "incomplete", one row per packet, with the reason. Where memory suffices, the packets do not depend on
    how epochs are cut.
    """

    timeout_us: int
    slice_bytes: int

    outputs = {
        _INCOMPLETE: {"time": "timestamp", **_KEY, "segments": "uint32", "bytes": "uint32", "reason": str}
    }

    def __init__(self, *, timeout: str | dt.timedelta = "30s", slice_bytes: int = 16 << 20) -> None:
        where = "JoinSegments"
        if slice_bytes < 1:
            raise BadArgument(where=where, what="slice_bytes", got=slice_bytes, allowed="1 or more")
        object.__setattr__(self, "timeout_us", microseconds(timeout, where=where, what="timeout"))
        object.__setattr__(self, "slice_bytes", slice_bytes)

    def init_state(self) -> TimedRows:
        from penstock.operators.timed_rows import TimedRows

        return TimedRows("time")

    def process(self, batch: pl.DataFrame, state: TimedRows, emit: Emit) -> None:
        import polars as pl

        held = len(state)
        rows = _numbered(pl.concat([state.frame(), batch], rechunk=True) if held else batch)
        needed, whole = self._whole(rows)
        emit(_joined(rows, needed, whole))
        fates = self._fates(rows, whole)
        self._give_up(rows, fates, emit)
        stays = fates.is_null()
        state.drop(~stays[:held].to_numpy())
        if stays[held:].any():
            state.append(batch.filter(stays[held:]))

    def on_punctuation(self, time: dt.datetime, state: TimedRows, emit: Emit) -> None:
        import polars as pl

        if not len(state):
            return
        rows = _numbered(state.frame())
        began = rows.select(pl.col("time").first().over(_UNIT)).to_series()
        is_over = began + dt.timedelta(microseconds=self.timeout_us) < time.replace(tzinfo=None)
        fates = pl.select(pl.when(is_over).then(pl.lit(_MISSING))).to_series()
        self._give_up(rows, fates, emit)
        state.drop(is_over.to_numpy())

    def _whole(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The segments that packets need, and the packets that have all of theirs, by first and last row."""
        import polars as pl

        distinct = rows.unique([*_UNIT, "segment"], keep="first", maintain_order=True)
        last = pl.col("segment").filter(~pl.col("has_more")).min().over(_UNIT)
        needed = distinct.with_columns(last=last).filter(pl.col("segment") <= pl.col("last"))
        begins = pl.col("is_first") & (pl.col("segment") == 0)
        units = needed.group_by(_UNIT).agg(
            pl.len().alias("count"),
            pl.col("last").first(),
            pl.col("at").filter(begins).first().alias("first"),
            pl.col("at").max().alias("done"),
            (pl.col("time").max() - pl.col("time").filter(begins).first()).alias("took"),
        )
        has_all = (pl.col("count") == pl.col("last").cast(pl.UInt32) + 1) & pl.col("first").is_not_null()
        in_time = pl.col("took") <= dt.timedelta(microseconds=self.timeout_us)
        return needed, units.filter(has_all & in_time).sort("done")

    def _fates(self, rows: pl.DataFrame, whole: pl.DataFrame) -> pl.Series:
        """Null for segments that wait, "" for those of a whole packet, or why they are given up."""
        import polars as pl

        done = whole.select(*_UNIT, "done")
        known = rows.join(done, on=_UNIT, how="left", maintain_order="left")
        is_done = pl.col("done").is_not_null()
        fates = known.select(
            pl.when(is_done & (pl.col("at") <= pl.col("done"))).then(pl.lit(_USED))
            .when(is_done | (pl.col("run") == 0)).then(pl.lit(_NO_FIRST))
            .when(pl.col("run") < pl.col("run").max().over(SEGMENT_KEY)).then(pl.lit(_MISSING))
        ).to_series()  # fmt: skip
        charge = pl.col("packet").bin.size().cast(pl.Int64) + _OVERHEAD
        waiting = (
            rows.filter(fates.is_null())
            .group_by(_UNIT, maintain_order=True)
            .agg(charge.sum().alias("charge"))
        )
        too_old = waiting.filter(pl.col("charge").cum_sum(reverse=True) > self.slice_bytes)
        if too_old.is_empty():
            return fates
        is_too_old = rows.join(too_old.with_columns(old=True), on=_UNIT, how="left", maintain_order="left")[
            "old"
        ]
        return pl.select(pl.when(is_too_old).then(pl.lit(_NO_MEMORY)).otherwise(fates)).to_series()

    def _give_up(self, rows: pl.DataFrame, fates: pl.Series, emit: Emit) -> None:
        import polars as pl

        gone = rows.with_columns(fates.alias("reason")).filter(pl.col("reason") != _USED)
        told = gone.group_by(*_UNIT, "reason", maintain_order=True).agg(
            pl.col("time").first(),
            pl.len().cast(pl.UInt32).alias("segments"),
            pl.col("packet").bin.size().sum().cast(pl.UInt32).alias("bytes"),
        )
        if told.height:
            emit.to(_INCOMPLETE, told.select(*self.outputs[_INCOMPLETE]))


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Segments with their place in the order of arrival, and which packet of their number they belong to."""
    import polars as pl

    run = pl.col("is_first").cum_sum().over(SEGMENT_KEY)
    return rows.with_columns(run.alias("run")).with_row_index("at")


def _joined(rows: pl.DataFrame, needed: pl.DataFrame, whole: pl.DataFrame) -> pl.DataFrame:
    """The packets, in the order in which they became whole, as rows of the capture."""
    import numpy as np
    import polars as pl

    from penstock.frames.hashing import byte_buffers
    from penstock.net._joined_packets import RAW_IP, as_rows, side_by_side

    parts = needed.join(whole.select(*_UNIT, "done"), on=_UNIT).sort("done", "segment")
    ends, data = byte_buffers(parts["packet"])
    places = ends[np.concatenate([[0], np.cumsum(whole["count"].to_numpy())]).astype(np.int64)]
    block = side_by_side(data, places, np.diff(places), np.full(whole.height, RAW_IP))
    of_capture = rows.drop("at", "run", *SEGMENT_KEY, *_PART)
    last, first = of_capture[whole["done"]], of_capture[whole["first"]]
    depth = pl.repeat(1, whole.height, dtype=pl.UInt8, eager=True)
    return as_rows(block, places, last, first, depth, MOST_TUNNELS)
