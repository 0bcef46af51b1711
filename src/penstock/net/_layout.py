"""Names of the places and numbers that the decode kernels use."""

from __future__ import annotations

# The columns of a packet while it is decoded: one row of int64. The kernels then give each its own width.
SRC_HIGH, SRC_LOW, DST_HIGH, DST_LOW, OUTER_SRC_HIGH, OUTER_SRC_LOW, OUTER_DST_HIGH, OUTER_DST_LOW = range(8)
IP_LENGTH, PAYLOAD_OFFSET, PAYLOAD_LENGTH, TUNNEL_ID, TCP_SEQ, TCP_ACK, FRAGMENT_ID, MPLS = range(8, 16)
SRC_PORT, DST_PORT, VLAN, INNER_VLAN, FRAGMENT_OFFSET, TCP_WINDOW, ETHERTYPE = range(16, 23)
(
    VERSION, PROTOCOL, FLAGS, TTL, TOS, TUNNEL, DEPTH, MORE_FRAGMENTS, REASON, ICMP_TYPE, ICMP_CODE,
) = range(23, 34)  # fmt: skip
ROW = 34
WIDE, LONG, SHORT = 8, 16, 23
"""Columns before the first of these have 64 bits, before the second 32, before the third 16, the rest 8."""

REASONS = (
    "ok",
    "unknown link type",
    "truncated link header",
    "not IP",
    "truncated IP header",
    "bad IP version",
    "bad IP header length",
    "bad IP length",
    "IP longer than the packet",
    "truncated IP options or extension header",
    "truncated transport header",
    "bad transport length",
    "nested too deep",
    "malformed inner packet",
    "ciphered LLC frame",
    "LLC frame in acknowledged mode",
    "compressed SNDCP packet",
    "first segment of an SNDCP packet",
    "later segment of an SNDCP packet",
    "impossible time",
)
"""Why a packet is not, or not fully, decoded; the column ``reason`` is a place in this list."""
(
    OK, UNKNOWN_LINK, CUT_LINK, NOT_IP, CUT_IP, BAD_VERSION, BAD_HEADER, BAD_LENGTH, TOO_LONG, CUT_EXTENSION,
    CUT_TRANSPORT, BAD_TRANSPORT, TOO_DEEP, BAD_INNER, CIPHERED, ACKNOWLEDGED, COMPRESSED, FIRST_SEGMENT,
    LATER_SEGMENT, IMPOSSIBLE_TIME,
) = range(len(REASONS))  # fmt: skip

TUNNELS = ("none", "ipip", "6in4", "gre", "vxlan", "geneve", "gtp-u", "4in6", "6in6", "gb")
"""What a packet travels in; the column ``tunnel`` is a place in this list."""
NO_TUNNEL, IPIP, SIX_IN_FOUR, GRE, VXLAN, GENEVE, GTP, FOUR_IN_SIX, SIX_IN_SIX, GB = range(len(TUNNELS))

# What comes next in a packet; the first steps of `_layers` answer one of these with a value.
STOP, ETHERNET, BY_TYPE, IP, PPP, TRANSPORT, GPRS = range(7)

MOST_LAYERS = 64
MOST_TUNNELS = 8
