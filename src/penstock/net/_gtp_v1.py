"""Messages of GTP versions 0 and 1 (3GPP 09.60 and 29.060), and those of GTP' (32.295)."""

from __future__ import annotations

from penstock.net import _gtp_ies as e
from penstock.net._gtp_ies import Malformed, Message, number, sized

_KINDS = {
    16: "create request",
    17: "create response",
    18: "update request",
    19: "update response",
    20: "delete request",
    21: "delete response",
}
_FIXED_1 = {
    1: 1, 2: 8, 3: 6, 4: 4, 5: 4, 8: 1, 9: 28, 11: 1, 12: 3, 13: 1, 14: 1, 15: 1, 16: 4, 17: 4, 18: 5, 19: 1,
    20: 1, 21: 1, 22: 9, 23: 1, 24: 1, 25: 2, 26: 2, 27: 2, 28: 2, 29: 1, 126: 1, 127: 4,
}  # fmt: skip
_FIXED_0 = {kind: size for kind, size in _FIXED_1.items() if kind < 16 or kind > 29}
_FIXED_0 |= {6: 3, 16: 2, 17: 2, 18: 3, 19: 1}
"""Sizes of the elements that do not tell theirs; in version 0 the numbers of tunnels have 16 bits."""
_USER_PACKET = 255
_NOT_ACCEPTED = 192
_IN_CODE = {0: "cgi", 1: "sai", 2: "rai"}


def parse_v1(data: bytes) -> list[Message]:
    """The message of a packet; none if it carries a user's packet."""
    message = Message(version=1)
    if len(data) < 8:
        return [_broken(message, e.CUT_HEADER)]
    message.message_type = data[1]
    message.kind = _KINDS.get(data[1], "other")
    message.teid = number(data, 4, 8)
    try:
        _elements(message, _behind_header_1(message, data), _FIXED_1)
    except Malformed as fault:
        message.reason = fault.reason
    return [message] if message.message_type != _USER_PACKET else []


def parse_v0(data: bytes) -> list[Message]:
    """The message of a packet of version 0; its header names the subscriber."""
    message = Message(version=0)
    if len(data) < 20:
        return [_broken(message, e.CUT_HEADER)]
    message.message_type = data[1]
    message.kind = _KINDS.get(data[1], "other")
    message.sequence, message.teid = number(data, 4, 6), number(data, 6, 8)
    if any(data[12:20]):
        message.imsi = e.digits(data[12:19] + bytes([data[19] | 0xF0]))
        message.bearers.append(data[19] >> 4)
    size = number(data, 2, 4)
    try:
        if len(data) < 20 + size:
            raise Malformed(e.TOO_LONG)
        _elements(message, data[20 : 20 + size], _FIXED_0)
    except Malformed as fault:
        message.reason = fault.reason
    return [message] if message.message_type != _USER_PACKET else []


def parse_prime(data: bytes) -> list[Message]:
    """The head of a message of GTP'. What it charges for is not looked into."""
    message = Message(version=data[0] >> 5 if data else 0, kind="charging")
    header = 20 if data and data[0] & 0xE1 == 0 else 6  # version 0 may have the long header of GTP
    if len(data) < header:
        return [_broken(message, e.CUT_HEADER)]
    message.message_type, message.sequence = data[1], number(data, 4, 6)
    if len(data) < header + number(data, 2, 4):
        message.reason = e.TOO_LONG
    return [message]


def _broken(message: Message, reason: int) -> Message:
    message.reason = reason
    return message


def _behind_header_1(message: Message, data: bytes) -> bytes:
    """The elements, with the sequence number noted and extension headers passed over."""
    end = 8 + number(data, 2, 4)
    if len(data) < end:
        raise Malformed(e.TOO_LONG)
    if not data[0] & 7:
        return data[8:end]
    if end < 12:
        raise Malformed(e.CUT_HEADER)
    if data[0] & 2:
        message.sequence = number(data, 8, 10)
    at, following = 12, data[11] if data[0] & 4 else 0
    while following:
        size = data[at] * 4 if at < end else 0
        if size == 0 or at + size > end:
            raise Malformed(e.BAD_EXTENSION)
        following = data[at + size - 1]
        at += size
    return data[at:end]


def _elements(message: Message, data: bytes, fixed: dict[int, int]) -> None:
    """Read all elements, then put together what several of them say."""
    addresses: list[e.Address] = []
    teids: list[int] = []
    at, fault = 0, None
    try:
        while at < len(data):
            kind = data[at]
            if kind < 128:
                if kind not in fixed:
                    raise Malformed(e.UNKNOWN_ELEMENT)
                begin, size = at + 1, fixed[kind]
            else:
                begin, size = at + 3, number(data[at:], 1, 3)
            _element(message, kind, sized(data[begin:], size)[:size], addresses, teids)
            at = begin + size
    except Malformed as broken:
        fault = broken
    _assign(message, addresses, teids)
    if fault:
        raise fault


def _element(message: Message, kind: int, value: bytes, addresses: list[e.Address], teids: list[int]) -> None:
    match kind:
        case 16:
            teids.append(number(value, 0, len(value)))
        case 133:
            addresses.append(e.address(value))
        case 19 if message.version == 1:
            message.is_teardown = bool(value[0] & 1)
        case 20:  # the second one names the first bearer of the same connection
            if message.bearers:
                message.linked_bearer = value[0] & 15
            else:
                message.bearers.append(value[0] & 15)
        case _ if kind in _READERS:
            _READERS[kind](message, value)


def _cause(message: Message, value: bytes) -> None:
    message.cause = value[0]
    message.is_accepted = 128 <= value[0] < _NOT_ACCEPTED


def _imsi(message: Message, value: bytes) -> None:
    message.imsi = e.digits(value)


def _msisdn(message: Message, value: bytes) -> None:
    message.msisdn = e.digits(value[1:])


def _apn(message: Message, value: bytes) -> None:
    message.apn = e.access_point(value)


def _control_teid(message: Message, value: bytes) -> None:
    message.control_teid = number(value, 0, len(value))


def _routing_area(message: Message, value: bytes) -> None:
    message.set_location("rai", value, number(value, 3, 5), None)


def _user_location(message: Message, value: bytes) -> None:
    code = _IN_CODE.get(sized(value, 1)[0])
    if code is not None:
        cell = None if code == "rai" else number(value, 6, 8)
        message.set_location(code, value[1:], number(value, 4, 6), cell)


def _user_address(message: Message, value: bytes) -> None:
    if len(value) < 6 or value[0] & 15 != 1:
        return  # asks for an address, or is not of the Internet
    parts = {0x21: (value[2:6],), 0x57: (value[2:18],), 0x8D: (value[2:6], value[6:22])}
    message.user_ips += [e.address_text(part) for part in parts.get(value[1], ()) if part]


_READERS = {
    1: _cause,
    2: _imsi,
    3: _routing_area,
    17: _control_teid,
    128: _user_address,
    131: _apn,
    134: _msisdn,
    152: _user_location,
}


def _assign(message: Message, addresses: list[e.Address], teids: list[int]) -> None:
    """The first address is for control, the second for users; one alone is for both."""
    if addresses:
        message.control_ip = addresses[0]
    for teid in teids:
        if addresses:
            bearer = message.bearers[0] if message.bearers else e.NO_BEARER
            message.add_tunnel(addresses[min(1, len(addresses) - 1)], teid, bearer)
