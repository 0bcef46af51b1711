"""Packets to the events of GTP's control plane: who got which tunnels, where, and through which access point.

packets = top.source("packets", net.Pcap(path, columns=net.CONTROL_NEEDS))
control = packets.flat_map("control", net.control_messages)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.net import _gtp_ies as e
from penstock.net import _layout as y
from penstock.net._gtp_v1 import parse_prime, parse_v0, parse_v1
from penstock.net._gtp_v2 import parse_v2
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import polars as pl

CONTROL_REASONS = e.REASONS
_PORT, _CHARGING_PORT, _UDP, _IS_GTP = 2123, 3386, 17, 0x10
_PEERS = ("src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low", "src_port", "dst_port")
CONTROL_NEEDS = (
    "time", *_PEERS, "protocol", "fragment_offset", "tunnel", "reason", "payload_offset", "payload_length",
    "packet",
)  # fmt: skip
"""The columns of packets that `control_messages` reads."""

CONTROL = Schema.of(
    {
        "time": "timestamp",
        "src_ip_high": "uint64",
        "src_ip_low": "uint64",
        "dst_ip_high": "uint64",
        "dst_ip_low": "uint64",
        "src_port": "uint16",
        "dst_port": "uint16",
        "version": "uint8",
        "message_type": "uint8",
        "kind": "string",
        "reason": "uint8",
        "sequence": "uint32",
        "teid": "uint32",
        "control_teid": "uint32",
        "control_ip_high": "uint64",
        "control_ip_low": "uint64",
        "user_tunnels": (
            "list<struct<ip_high:uint64,ip_low:uint64,teid:uint32,bearer:uint8,interface:uint8>>"
        ),
        "imsi": "string",
        "msisdn": "string",
        "mcc": "string",
        "mnc": "string",
        "location": "string",
        "area": "uint32",
        "cell": "uint32",
        "apn": "string",
        "user_ips": "list<string>",
        "cause": "uint8",
        "is_accepted": "bool",
        "bearers": "list<uint8>",
        "linked_bearer": "uint8",
        "is_teardown": "bool",
    }
)
"""One row per message of GTP-C (versions 0, 1 and 2) or GTP'; what a message does not say is null.

``kind`` is "create", "update", "modify", "delete" or "release", with "request" or "response"; "charging" for
GTP'; else "other". ``reason`` is a place in `CONTROL_REASONS`. ``teid`` is the one in the header,
``control_…`` and ``user_tunnels`` are the ends that the message assigns; the ``bearer`` of one is its EBI or
NSAPI, 255 if it is not told, the ``interface`` is that of version 2's F-TEID. ``location`` says what ``area``
and ``cell`` are: "cgi" (LAC, CI), "sai" (LAC, SAC), "ecgi" (TAC, ECI), "rai" or "lai" (LAC), "tai" (TAC)."""


def control_messages(packets: pl.DataFrame) -> pl.DataFrame:
    """The control messages among packets, each as a row of `CONTROL`, in their order.

    Needs the columns `CONTROL_NEEDS`. Wire bytes never raise: a message that breaks off has a ``reason`` and
    what came before. What a subscriber sends through a tunnel is not control, whatever it looks like.
    """
    import polars as pl
    import pyarrow as pa

    from penstock.frames.types import to_arrow

    ports = (_PORT, _CHARGING_PORT)
    chosen = packets.filter(
        (pl.col("src_port").is_in(ports) | pl.col("dst_port").is_in(ports))
        & (pl.col("protocol") == _UDP)
        & (pl.col("fragment_offset") == 0)
        & pl.col("reason").is_in([y.OK, y.TOO_LONG])
        & ~pl.col("tunnel").is_in([y.GTP, y.GB])
    ).select(CONTROL_NEEDS)
    rows = [row for packet in chosen.iter_rows(named=True) for row in _rows(packet)]
    # Arrow takes lists of values, nested ones too, many times quicker than Polars.
    kinds = to_arrow(CONTROL)
    arrays = [pa.array([row[kind.name] for row in rows], kind.type) for kind in kinds]
    return pl.DataFrame(pl.from_arrow(pa.Table.from_arrays(arrays, schema=kinds)))


def _rows(packet: dict[str, Any]) -> list[dict[str, Any]]:
    begin = packet["payload_offset"]
    data = packet["packet"][begin : begin + packet["payload_length"]]
    common = {"time": packet["time"], **{name: packet[name] for name in _PEERS}}
    is_charging = _CHARGING_PORT in (packet["src_port"], packet["dst_port"])
    return [{**common, **e.columns(message)} for message in _messages(data, is_charging=is_charging)]


def _messages(data: bytes, *, is_charging: bool) -> list[e.Message]:
    if not data:
        return [e.Message(reason=e.CUT_HEADER)]
    version = data[0] >> 5
    if version > 2:
        return [e.Message(version=version, reason=e.UNKNOWN_VERSION)]
    if version == 2:
        return parse_prime(data) if is_charging else parse_v2(data)
    if not data[0] & _IS_GTP:
        return parse_prime(data)
    return parse_v1(data) if version else parse_v0(data)
