"""Gb frames to tunnels: which TLLI belongs to which subscriber, and in which cell it is.

packets.flat_map("gb", net.gb_sightings).key_by(*net.GB_KEY).process("gb-tunnels", net.GbTunnels())
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.durations import microseconds
from penstock.net.tunnels import TUNNEL_KEY, GtpTunnels
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

_ENDS = ("a_ip_high", "a_ip_low", "b_ip_high", "b_ip_low")
_KEY = {**dict.fromkeys(_ENDS, "uint64"), "tlli": "uint32"}
GB_KEY = tuple(_KEY)
"""What the frames of one subscriber have in common while it has its TLLI, whichever way they go."""
GB_NEEDS = (
    "time", "packet", "length", "link_type", "protocol", "tunnel", "src_port", "dst_port",
    "src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low",
    "outer_src_ip_high", "outer_src_ip_low", "outer_dst_ip_high", "outer_dst_ip_low",
)  # fmt: skip
"""The columns of packets that `gb_sightings` reads."""
_CODES = {"imsi": "uint64", "network": "uint32", "place": "uint64"}
_HALVES = ("high", "low")
_PORT, _UDP = 23000, 17
WAITING, TLLIS, DEADLINES = "waiting", "tllis", "deadlines"


def gb_sightings(packets: pl.DataFrame) -> pl.DataFrame:
    """The Gb frames among packets that say who has a TLLI, or in which cell; needs `GB_NEEDS`.

    Cells come with every frame from a phone. The IMSI comes with frames to it, where the network adds it,
    and from attach requests and identity responses.
    """
    import polars as pl

    from penstock.net._layout import GB, NO_TUNNEL
    from penstock.net.gb import gb_frames

    is_user = pl.col("tunnel") == GB
    has_port = (pl.col("src_port") == _PORT) | (pl.col("dst_port") == _PORT)
    is_frame = is_user | (has_port & (pl.col("protocol") == _UDP) & (pl.col("tunnel") == NO_TUNNEL))
    chosen = packets.select(GB_NEEDS).filter(is_frame & pl.col("time").is_not_null())
    tells = pl.col("tlli").is_not_null() & (pl.col("imsi").is_not_null() | pl.col("cell").is_not_null())
    ends = [
        pl.when(is_user).then(f"outer_{way}_ip_{half}").otherwise(f"{way}_ip_{half}").alias(f"{way}_{half}")
        for way in ("src", "dst")
        for half in _HALVES
    ]
    high, other = pl.col("src_high"), pl.col("dst_high")
    is_lesser = (high < other) | ((high == other) & (pl.col("src_low") < pl.col("dst_low")))
    frames = gb_frames(chosen).filter(tells).with_columns(ends).with_columns(up=is_lesser)
    lesser = [pl.when("up").then(f"src_{h}").otherwise(f"dst_{h}").alias(f"a_ip_{h}") for h in _HALVES]
    greater = [pl.when("up").then(f"dst_{h}").otherwise(f"src_{h}").alias(f"b_ip_{h}") for h in _HALVES]
    return frames.select(
        "time", *lesser, *greater, "tlli", "imsi", "mcc", "mnc",
        pl.when(pl.col("cell").is_not_null()).then(pl.lit("cgi")).alias("location"),
        pl.col("lac").cast(pl.UInt32).alias("area"), pl.col("cell").cast(pl.UInt32),
    )  # fmt: skip


@dataclass(frozen=True, init=False)
class GbTunnels(Operator):
    """Emit a row like those of `GtpTunnels` for both ends of the Gb link when a TLLI's owner or cell changes.

    On Gb a TLLI is what a tunnel's number is in GTP: it stands for a subscriber for a while. Both ways
    use the same one, and what is told in one holds for both. Rows are taken by time at the punctuation. A
    TLLI that told nothing for ``forget`` is over: phones get new ones without a word. State: the TLLIs in
    use, saved by what changed.
    """

    forget_us: int
    returns: ClassVar[Mapping[str, Any]] = GtpTunnels.returns

    def __init__(self, *, forget: str | dt.timedelta = "2h") -> None:
        object.__setattr__(self, "forget_us", microseconds(forget, where="GbTunnels", what="forget"))

    def init_state(self) -> dict[str, Any]:
        from penstock.net._deadlines import Deadlines
        from penstock.operators.keyed import KeyedTable
        from penstock.operators.timed_rows import TimedRows

        table = KeyedTable(_KEY, {**_CODES, "seen": "timestamp"})
        return {WAITING: TimedRows("time"), TLLIS: table, DEADLINES: Deadlines(self.forget_us)}

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        state[WAITING].append(_coded(batch))

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        from penstock.net._deadlines import expired
        from penstock.net.subscribers import before
        from penstock.operators.event_time import as_us

        told = before(state[WAITING], as_us(time))
        if told is not None:
            emit(_both_ends(self._changes(told.sort("time", maintain_order=True), state), is_valid=True))
        table = state[TLLIS]
        over = expired(table, state[DEADLINES], time, key=GB_KEY, last="seen", span_us=self.forget_us)
        if len(over) and time.year < 9999:
            emit(_both_ends(table.frame(over).with_columns(time=time), is_valid=False))
        table.remove(over)

    def _changes(self, told: pl.DataFrame, state: dict[str, Any]) -> pl.DataFrame:
        """Those of the rows that say something new, filled up with what was known; notes all."""
        import numpy as np
        import polars as pl

        table = state[TLLIS]
        keys = told.select(GB_KEY).unique(maintain_order=True)
        numbers = table.find(keys)
        known = table.frame(numbers[numbers >= 0]).select(pl.lit(None).alias("time"), *GB_KEY, *_CODES)
        both = pl.concat([known.cast({"time": told.schema["time"]}), told.select(known.columns)])
        filled = both.with_columns(
            pl.col(name).replace(0, None).forward_fill().over(GB_KEY).fill_null(0) for name in _CODES
        )
        is_new = pl.any_horizontal(pl.col(n) != pl.col(n).shift(1).over(GB_KEY) for n in _CODES).fill_null(
            value=True
        )
        changes: pl.DataFrame = filled.with_columns(is_new=is_new).filter(
            pl.col("is_new") & pl.col("time").is_not_null()
        )
        last = filled.unique(GB_KEY, keep="last", maintain_order=True)
        rows = table.rows(last.select(GB_KEY))
        for name in _CODES:
            table.last(name, rows, last[name].to_numpy())
        table.maximum("seen", rows, last["time"].to_numpy())
        begun = rows[np.isin(rows, numbers, invert=True)]
        state[DEADLINES].enter(begun, table["seen"][begun] + self.forget_us)
        return changes


def _coded(sightings: pl.DataFrame) -> pl.DataFrame:
    """Sightings as numbers, which can be kept per TLLI."""
    from penstock.net import _subscriber_codes as c

    imsi = c.digits_code("imsi").alias("imsi")
    return sightings.select(
        "time", *GB_KEY, imsi, c.network_code().alias("network"), c.place_code().alias("place")
    )


def _both_ends(rows: pl.DataFrame, *, is_valid: bool) -> pl.DataFrame:
    """A tunnel's row for the packets of either way; `rows` have codes."""
    import polars as pl

    from penstock.frames.types import polars_type
    from penstock.net.subscribers import texts

    coded = rows.with_columns(msisdn=pl.lit(0, pl.UInt64))
    whole = rows.select("time", *GB_KEY).with_columns(texts(coded).get_columns())
    ways = [
        whole.with_columns(
            pl.col(old).alias(new)
            for old, new in zip((f"{end}_ip_high", f"{end}_ip_low", "tlli"), TUNNEL_KEY, strict=True)
        )
        for end in ("a", "b")
    ]
    unsaid = [pl.lit(None, polars_type(str(GtpTunnels.returns[n]))).alias(n) for n in ("apn", "bearer")]
    told = pl.concat(ways).sort("time", maintain_order=True)
    told = told.with_columns(*unsaid, is_valid=pl.lit(is_valid)).select(*GtpTunnels.returns)
    # Polars 2.1 with one thread hangs when it pickles columns that are chunked differently.
    return told.rechunk()
