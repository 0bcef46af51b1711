"""Numba steps for the Gb interface: NS over UDP, BSSGP, LLC and SNDCP, to a user's packet.

3GPP 48.016, 48.018, 44.064 and 44.065. All places that steps answer lie within the captured bytes.
"""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, step
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, u8

DL_UNITDATA, UL_UNITDATA = 0, 1
LLC_PDU = 14
LLC_I, LLC_S, LLC_UI, LLC_U = 1, 2, 3, 4
NS_HEADER, QOS, FCS = 4, 3, 3
FIRST, UNACKNOWLEDGED, MORE = 0x40, 0x20, 0x10


@step
def is_unitdata(data: Column, at: Any, cap: Any) -> Any:
    """Whether a datagram is a unit of NS that carries a subscriber's LLC frame."""
    return (
        cap - at >= NS_HEADER + 5 + QOS
        and u8(data, at) == 0
        and u8(data, at + 1) < 4
        and u8(data, at + NS_HEADER) <= UL_UNITDATA
    )


@step
def element(data: Column, at: Any, cap: Any) -> tuple[Any, Any]:
    """Where the value of an element of BSSGP begins and its size; (-1, 0) if the head is cut.

    The value may end behind what was captured.
    """
    if cap - at < 2:
        return -1, 0
    size = u8(data, at + 1)
    if size & 0x80:
        return at + 2, size & 0x7F
    if cap - at < 3:
        return -1, 0
    return at + 3, be16(data, at + 1)


@step
def find_element(data: Column, at: Any, cap: Any, wanted: Any) -> tuple[Any, Any]:
    """The first element of a kind from here on: place and size; (-1, 0) if there is none."""
    while at < cap:
        place, size = element(data, at, cap)
        if place < 0:
            return -1, 0
        if u8(data, at) == wanted:
            return place, size
        at = place + size
    return -1, 0


@step
def llc_format(control: Any) -> Any:
    """The format of an LLC frame by the first byte of its control field."""
    if control & 0x80 == 0:
        return LLC_I
    if control & 0x40 == 0:
        return LLC_S
    return LLC_UI if control & 0x20 == 0 else LLC_U


@step
def carries_packets(sapi: Any) -> Any:
    """Whether an access point of LLC belongs to SNDCP."""
    return sapi in (3, 5, 9, 11)


@step
def gb(data: Column, at: Any, cap: Any, wire: Any, row: Column) -> tuple[Any, Any, Any, Any, Any]:
    """A user's packet in a unit of NS. What does not look like one, or is signalling, stays a UDP packet."""
    if not is_unitdata(data, at, cap):
        return y.STOP, y.OK, at, cap, wire
    bssgp = at + NS_HEADER
    frame, size = find_element(data, bssgp + 5 + QOS, cap, LLC_PDU)
    if frame < 0 or frame + size > wire or size < 2 + FCS:
        return y.STOP, y.BAD_INNER, at, cap, wire
    inner_wire = frame + size - FCS
    inner_cap = min(cap, inner_wire)
    if inner_cap - frame < 2:
        return y.STOP, y.BAD_INNER, at, cap, wire
    sapi, form = u8(data, frame) & 15, llc_format(u8(data, frame + 1))
    if not carries_packets(sapi) or form in (LLC_S, LLC_U):
        return y.STOP, y.OK, at, cap, wire
    if form == LLC_I:
        return y.STOP, y.ACKNOWLEDGED, at, cap, wire
    reason = _closed(data, frame + 2, inner_cap)
    if reason:
        return y.STOP, reason, at, cap, wire
    if u8(data, frame + 3) & MORE:
        row[y.REASON] = y.FIRST_SEGMENT
    row[y.TUNNEL] = y.GB
    row[y.TUNNEL_ID] = be32(data, bssgp + 1)
    return y.IP, 0, frame + 7, inner_cap, inner_wire


@step
def _closed(data: Column, at: Any, cap: Any) -> Any:
    """Why an unnumbered frame does not show how a packet begins; ``at`` is behind the first control byte."""
    if cap - at < 2:
        return y.BAD_INNER
    if u8(data, at) & 2:
        return y.CIPHERED
    flags = u8(data, at + 1)
    if not flags & UNACKNOWLEDGED:
        return y.ACKNOWLEDGED
    if not flags & FIRST:
        return y.LATER_SEGMENT
    if cap - at < 6:
        return y.BAD_INNER
    return y.COMPRESSED if u8(data, at + 2) else y.OK
