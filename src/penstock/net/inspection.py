"""What a capture holds, and what in it is malformed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from penstock.net._index_state import BLOCK_KINDS
from penstock.net._layout import REASONS, TUNNELS
from penstock.net.capture import Fault, Walk
from penstock.net.decoding import decode_block
from penstock.net.feeds import BytesFeed, codec_by_content
from penstock.net.opening import NotACapture, opened

_COLUMNS = ("time_ns", "length", "captured", "link_type", "ip_version", "protocol", "tunnel", "reason")
_GROUPS = ("link_type", "ip_version", "protocol", "tunnel", "reason")
_PROTOCOLS = {
    1: "ICMP", 2: "IGMP", 4: "IPv4", 6: "TCP", 17: "UDP", 33: "DCCP", 41: "IPv6", 47: "GRE", 50: "ESP",
    51: "AH", 58: "ICMPv6", 88: "EIGRP", 89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP", 136: "UDPLite",
}  # fmt: skip
_LINKS = {
    0: "BSD loopback", 1: "Ethernet", 9: "PPP", 12: "raw IP", 14: "raw IP", 50: "PPP", 51: "PPPoE",
    101: "raw IP", 104: "Cisco HDLC", 105: "802.11", 108: "OpenBSD loopback", 113: "Linux cooked v1",
    127: "802.11 radiotap", 192: "PPI", 228: "IPv4", 229: "IPv6", 276: "Linux cooked v2",
}  # fmt: skip
_MOST_FAULTS = 1000


@dataclass(frozen=True, slots=True)
class Tally:
    """Packets that have something in common."""

    name: str
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """A summary of one capture. ``damage`` keeps the first stretches, ``damaged`` counts all."""

    path: str
    format: str
    compression: str
    packets: int = 0
    bytes: int = 0
    captured_bytes: int = 0
    first_time: str | None = None
    last_time: str | None = None
    blocks: dict[str, int] = field(default_factory=dict)
    link_types: tuple[Tally, ...] = ()
    protocols: tuple[Tally, ...] = ()
    tunnels: tuple[Tally, ...] = ()
    malformed: tuple[Tally, ...] = ()
    damaged: int = 0
    damage: tuple[Fault, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values."""
        return asdict(self)


def inspect(path: str | Path) -> Inspection:
    """Read a capture through and say what is in it. Raises OSError only if the file cannot be read."""
    codec = codec_by_content(str(path)) or "none"
    sums: list[pl.DataFrame] = []
    faults: list[Fault] = []
    try:
        with opened(str(path)) as (walk, feed):
            for block in walk.blocks():
                faults += block.faults
                if len(block):
                    sums.append(_sum(decode_block(block, _COLUMNS)))
            if isinstance(feed, BytesFeed) and feed.fault:
                faults.append(Fault(walk.resume.at, walk.resume.at, feed.fault))
    except NotACapture as error:
        return Inspection(str(path), "unknown", codec, damaged=1, damage=(Fault(0, 0, str(error)),))
    return _summary(str(path), codec, walk, pl.concat(sums) if sums else None, faults)


def _sum(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by(_GROUPS).agg(
        packets=pl.len().cast(pl.Int64),
        bytes=pl.col("length").cast(pl.Int64).sum(),
        captured=pl.col("captured").cast(pl.Int64).sum(),
        first=pl.col("time_ns").min(),
        last=pl.col("time_ns").max(),
    )


def _summary(path: str, codec: str, walk: Walk, sums: pl.DataFrame | None, faults: list[Fault]) -> Inspection:
    counted = zip(BLOCK_KINDS, walk.blocks_of_kind.tolist(), strict=True)
    common: dict[str, Any] = {
        "path": path,
        "format": _format(walk),
        "compression": codec,
        "blocks": {kind: count for kind, count in counted if count},
        "damaged": len(faults),
        "damage": tuple(faults[:_MOST_FAULTS]),
    }
    if sums is None:
        return Inspection(**common)
    decoded = sums.filter(pl.col("ip_version") > 0)
    kinds = decoded.with_columns(
        name=pl.format("IPv{} ", "ip_version")
        + pl.col("protocol").replace_strict(
            _PROTOCOLS, default=pl.format("protocol {}", "protocol"), return_dtype=pl.String
        )
    )
    links = pl.col("link_type").replace_strict(
        _LINKS, default=pl.format("link type {}", "link_type"), return_dtype=pl.String
    )
    return Inspection(
        **common,
        packets=int(sums["packets"].sum()),
        bytes=int(sums["bytes"].sum()),
        captured_bytes=int(sums["captured"].sum()),
        first_time=_time(sums["first"].min()),
        last_time=_time(sums["last"].max()),
        link_types=_tallies(sums.with_columns(name=links)),
        protocols=_tallies(kinds),
        tunnels=_tallies(_named(sums.filter(pl.col("tunnel") > 0), "tunnel", TUNNELS)),
        malformed=_tallies(_named(sums.filter(pl.col("reason") > 0), "reason", REASONS)),
    )


def _named(sums: pl.DataFrame, column: str, names: tuple[str, ...]) -> pl.DataFrame:
    return sums.with_columns(
        name=pl.col(column).replace_strict(dict(enumerate(names)), return_dtype=pl.String)
    )


def _tallies(sums: pl.DataFrame) -> tuple[Tally, ...]:
    grouped = sums.group_by("name").agg(pl.col("packets").sum(), pl.col("bytes").sum())
    return tuple(Tally(*row) for row in grouped.sort(["packets", "name"], descending=[True, False]).rows())


def _time(ns: Any) -> str | None:
    if ns is None:
        return None
    moment = datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{ns % 1_000_000_000:09d}Z"


def _format(walk: Walk) -> str:
    header = walk.header
    if header.kind == "pcapng":
        return "pcapng"
    order, unit = "big" if header.is_big else "little", "nanoseconds" if header.is_nano else "microseconds"
    return f"pcap {header.version[0]}.{header.version[1]}, {order}-endian, {unit}"
