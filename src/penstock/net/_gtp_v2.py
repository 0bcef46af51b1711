"""Messages of GTP version 2 (3GPP 29.274)."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.net import _gtp_ies as e
from penstock.net._gtp_ies import Malformed, Message, number, sized

_KINDS = {
    32: "create request",
    33: "create response",
    34: "modify request",
    35: "modify response",
    36: "delete request",
    37: "delete response",
    95: "create request",
    96: "create response",
    97: "update request",
    98: "update response",
    99: "delete request",
    100: "delete response",
    170: "release request",
    171: "release response",
    211: "modify request",
    212: "modify response",
}
_PIGGYBACKED, _WITH_TEID = 0x10, 0x08
_ACCEPTED = range(16, 64)
# The parts of a location in their order: bit, kind, bytes.
_PLACES = ((1, "cgi", 7), (2, "sai", 7), (4, "rai", 7), (8, "tai", 5), (16, "ecgi", 7), (32, "lai", 5))
_CONTROL_INTERFACES = frozenset({*range(6, 15), 17, 18, *range(24, 28), 30, 32, 35, 36})


def parse_v2(data: bytes) -> list[Message]:
    """The messages of a packet: one, or two if the first has another on its back."""
    message, rest = _parse_one(data)
    if rest is None:
        return [message]
    if not rest or rest[0] >> 5 != 2:
        message.reason = message.reason or e.BAD_PIGGYBACK
        return [message]
    return [message, _parse_one(rest)[0]]


def _parse_one(data: bytes) -> tuple[Message, bytes | None]:
    message = Message(version=2)
    header = 12 if data and data[0] & _WITH_TEID else 8
    if len(data) < header:
        message.reason = e.CUT_HEADER
        return message, None
    message.message_type = data[1]
    message.kind = _KINDS.get(data[1], "other")
    message.sequence = number(data, header - 4, header - 1)
    message.teid = number(data, 4, 8) if header == 12 else None
    end = 4 + number(data, 2, 4)
    try:
        if end < header:
            raise Malformed(e.CUT_HEADER)
        if end > len(data):
            raise Malformed(e.TOO_LONG)
        for kind, instance, value in _elements(data[header:end]):
            _element(message, kind, instance, value)
    except Malformed as fault:
        message.reason = fault.reason
    return message, data[end:] if data[0] & _PIGGYBACKED and header <= end <= len(data) else None


def _elements(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        size = number(data[at:], 1, 3)
        value = sized(data[at:], 4 + size)[4 : 4 + size]
        yield data[at], data[at + 3] & 15, value
        at += 4 + size


def _element(message: Message, kind: int, instance: int, value: bytes) -> None:
    match kind:
        case 1:
            message.imsi = e.digits(value)
        case 2:
            message.cause = sized(value, 1)[0]
            message.is_accepted = value[0] in _ACCEPTED
        case 71:
            message.apn = e.access_point(value)
        case 73:
            _bearer_id(message, instance, sized(value, 1)[0] & 15)
        case 76:
            message.msisdn = e.digits(value)
        case 79:
            _user_address(message, value)
        case 86 if instance == 0:
            _location(message, value)
        case 87:
            _control_end(message, instance, value)
        case 93:
            _bearer_context(message, value)


def _bearer_id(message: Message, instance: int, bearer: int) -> None:
    """Outside of a bearer's context: instance 0 names a connection by its first bearer, 1 single bearers."""
    if instance == 0:
        message.linked_bearer = bearer
    else:
        message.bearers.append(bearer)


def _user_address(message: Message, value: bytes) -> None:
    kind = sized(value, 1)[0] & 7
    four, six = {1: (value[1:5], b""), 2: (b"", value[2:18]), 3: (value[18:22], value[2:18])}.get(
        kind, (b"", b"")
    )
    # All zero asks for an address.
    message.user_ips += [e.address_text(part) for part in (four, six) if any(part)]


def _location(message: Message, value: bytes) -> None:
    told, at, tracking = sized(value, 1)[0], 1, None
    for bit, kind, size in _PLACES:
        if not told & bit:
            continue
        part = sized(value[at:], size)[:size]
        at += size
        if kind == "ecgi":  # its area is the one before it
            message.set_location(kind, part, tracking or 0, number(part, 3, 7) & 0x0FFF_FFFF)
            message.area = tracking
        else:
            cell = number(part, 5, 7) if kind in ("cgi", "sai") else None
            tracking = number(part, 3, 5) if kind == "tai" else tracking
            message.set_location(kind, part, number(part, 3, 5), cell)


def _end(value: bytes) -> tuple[int, int, list[e.Address]]:
    """The interface, the TEID and its addresses."""
    flags, teid, at = sized(value, 5)[0], number(value, 1, 5), 5
    addresses = []
    for bit, size in ((0x80, 4), (0x40, 16)):
        if flags & bit:
            addresses.append(e.address(sized(value[at:], size)[:size]))
            at += size
    return flags & 63, teid, addresses


def _control_end(message: Message, instance: int, value: bytes) -> None:
    """The sender's own end; a PGW answers with instance 1, which elsewhere speaks of others."""
    interface, teid, addresses = _end(value)
    is_own = instance == 0 or (instance == 1 and message.control_teid is None and message.message_type == 33)
    if addresses and is_own and interface in _CONTROL_INTERFACES:
        message.control_teid, message.control_ip = teid, addresses[0]


def _bearer_context(message: Message, value: bytes) -> None:
    ends, bearer = [], e.NO_BEARER
    for kind, _, part in _elements(value):
        if kind == 73:
            bearer = sized(part, 1)[0] & 15
        elif kind == 87:
            ends.append(_end(part))
    if bearer != e.NO_BEARER and bearer not in message.bearers:
        message.bearers.append(bearer)
    for interface, teid, addresses in ends:
        if interface not in _CONTROL_INTERFACES:
            for ip in addresses:
                message.add_tunnel(ip, teid, bearer, interface)
