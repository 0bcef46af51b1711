"""The columns of decoded packets and of counts, in the field's words. Imports neither Polars nor numba."""

from __future__ import annotations

from penstock.net import _layout as y
from penstock.topology.schema import Schema

WIDE = {
    "src_ip_high": y.SRC_HIGH,
    "src_ip_low": y.SRC_LOW,
    "dst_ip_high": y.DST_HIGH,
    "dst_ip_low": y.DST_LOW,
    "outer_src_ip_high": y.OUTER_SRC_HIGH,
    "outer_src_ip_low": y.OUTER_SRC_LOW,
    "outer_dst_ip_high": y.OUTER_DST_HIGH,
    "outer_dst_ip_low": y.OUTER_DST_LOW,
}
LONG = {
    "ip_length": y.IP_LENGTH,
    "payload_offset": y.PAYLOAD_OFFSET,
    "payload_length": y.PAYLOAD_LENGTH,
    "tunnel_id": y.TUNNEL_ID,
    "tcp_seq": y.TCP_SEQ,
    "tcp_ack": y.TCP_ACK,
    "fragment_id": y.FRAGMENT_ID,
    "mpls_label": y.MPLS,
}
SHORT = {
    "src_port": y.SRC_PORT,
    "dst_port": y.DST_PORT,
    "vlan": y.VLAN,
    "inner_vlan": y.INNER_VLAN,
    "fragment_offset": y.FRAGMENT_OFFSET,
    "tcp_window": y.TCP_WINDOW,
    "ethertype": y.ETHERTYPE,
}
TINY = {
    "ip_version": y.VERSION,
    "protocol": y.PROTOCOL,
    "tcp_flags": y.FLAGS,
    "ttl": y.TTL,
    "tos": y.TOS,
    "tunnel": y.TUNNEL,
    "tunnel_depth": y.DEPTH,
    "more_fragments": y.MORE_FRAGMENTS,
    "reason": y.REASON,
    "icmp_type": y.ICMP_TYPE,
    "icmp_code": y.ICMP_CODE,
}
TABLES = (WIDE, LONG, SHORT, TINY)
_RECORD = {
    "time": "timestamp",
    "time_ns": "int64",
    "length": "uint32",
    "captured": "uint32",
    "interface": "uint32",
    "link_type": "uint16",
}
IN_FILE = ("capture_file", "capture_place")
_TAKEN = {"packet": "binary", **dict(zip(IN_FILE, ("string", "int64"), strict=True))}

TYPES: dict[str, str] = {
    **_RECORD,
    **dict.fromkeys(TINY, "uint8"),
    **dict.fromkeys(WIDE, "uint64"),
    **dict.fromkeys(SHORT, "uint16"),
    **dict.fromkeys(LONG, "uint32"),
    **_TAKEN,
}
"""Every column that a packet can have; what a packet does not have is 0.

IPv4 addresses are written as ::ffff:a.b.c.d. ``length`` is the length on the wire, ``payload_offset`` counts
from the packet's first captured byte, ``payload_length`` is what the headers say. Of a packet in a tunnel the
columns tell of the innermost packet, the ``outer_…`` columns of the one that carries it; tags and labels are
the first ones found. ``time`` and ``time_ns`` are null where a capture has no time. ``packet`` holds the
captured bytes; ``capture_file`` and ``capture_place`` say where they lie, null and 0 unless a plain file
holds them."""

DEFAULT = tuple(name for name in TYPES if name not in _TAKEN)

COUNTS = Schema(
    (
        ("time", "timestamp"),
        ("last_time", "timestamp"),
        ("ip_version", "uint8"),
        ("protocol", "uint8"),
        ("reason", "uint8"),
        ("packets", "int64"),
        ("bytes", "int64"),
        ("captured_bytes", "int64"),
    )
)
"""Packets of a stretch of a capture that are alike, added up; the times are those between which the packets
of the stretch came, null where they have none."""


def schema_of(columns: tuple[str, ...]) -> Schema:
    """The schema of chosen columns."""
    return Schema(tuple((name, TYPES[name]) for name in columns))
