"""GTP-C: a subscriber's session is created, moves to another cell, and is deleted.

Version 1 between SGSN and GGSN (PDP contexts), version 2 between SGW and PGW (sessions). The client is the
serving node.
"""

from __future__ import annotations

from typing import Literal

from penstock.net.synth.message import Message, Register, bcd, number, raw, sized, u16
from penstock.net.synth.script import TO_CLIENT, TO_SERVER, Script, Writer

Event = Literal["create", "move", "delete"]
EVENTS: tuple[Event, ...] = ("create", "move", "delete")
PORT = 2123
PLMN = bytes.fromhex("62f210")  # 262 01 as nibbles: MCC 262, MNC 01
APN = b"\x08internet"
IMSI_DIGITS, MSISDN_DIGITS = 15, 12
_QOS = bytes.fromhex("0b921f7396")
_V1 = {"create": (16, 17), "move": (18, 19), "delete": (20, 21)}
_V2 = {"create": (32, 33), "move": (34, 35), "delete": (36, 37)}
_R = Register


def control_script(event: Event, version: Literal[1, 2]) -> Script:
    """A request and its answer. Both have one time, so that nothing of the subscriber lies between them."""
    writer = Writer("gtp-c", "", round_trip_us=0)
    c = writer.udp("GTP-C", PORT)
    request, response = _version_1(event) if version == 1 else _version_2(event)
    writer.say(c, TO_SERVER, request)
    writer.say(c, TO_CLIENT, response)
    return writer.script(only_ipv4=True)


def _version_1(event: Event) -> tuple[Message, Message]:
    to_gateway = raw(bytes(4)) if event == "create" else number(4, _R.CONTROL_UP)
    to_serving = number(4, _R.CONTROL_DOWN)
    asked, answered = _V1[event]
    return (
        _packet_1(asked, to_gateway, _request_1(event)),
        _packet_1(answered, to_serving, _response_1(event)),
    )


def _packet_1(kind: int, teid: Message, elements: Message) -> Message:
    rest = number(2, _R.NUMBER) + raw(b"\0\0") + elements
    return raw(bytes([0x32, kind]) + u16(len(rest))) + teid + rest


def _tv(kind: int, value: Message) -> Message:
    return raw(bytes([kind])) + value


def _tlv_1(kind: int, value: Message) -> Message:
    return raw(bytes([kind])) + sized(2, value)


def _location_1() -> Message:
    """User location information with a cell global identity."""
    return _tlv_1(152, raw(b"\0" + PLMN) + number(2, _R.AREA) + number(2, _R.CELL))


def _request_1(event: Event) -> Message:
    nodes = _tlv_1(133, number(4, _R.SERVING_IP)) + _tlv_1(133, number(4, _R.SERVING_IP))
    routing_area = _tv(3, raw(PLMN) + number(2, _R.AREA) + raw(b"\x01"))
    if event == "delete":
        return raw(b"\x13\xff") + raw(b"\x14\x05")  # tear down; NSAPI 5
    if event == "move":
        out = routing_area + _tv(16, number(4, _R.TEID_DOWN)) + _tv(17, number(4, _R.CONTROL_DOWN))
        return (
            out + raw(b"\x14\x05") + nodes + _tlv_1(135, raw(_QOS)) + raw(b"\x97\0\x01\x01") + _location_1()
        )
    out = _tv(2, bcd(IMSI_DIGITS, _R.IMSI)) + routing_area + raw(b"\x0e\x01\x0f\xfc")
    out += _tv(16, number(4, _R.TEID_DOWN)) + _tv(17, number(4, _R.CONTROL_DOWN)) + raw(b"\x14\x05")
    out += raw(b"\x1a\x08\0") + _tlv_1(128, raw(b"\xf1\x8d")) + _tlv_1(131, raw(APN)) + nodes
    out += _tlv_1(134, raw(b"\x91") + bcd(MSISDN_DIGITS, _R.MSISDN)) + _tlv_1(135, raw(_QOS))
    return out + raw(b"\x97\0\x01\x01") + _location_1()


def _response_1(event: Event) -> Message:
    accepted = raw(b"\x01\x80")
    if event == "delete":
        return accepted
    ids = _tv(16, number(4, _R.TEID_UP)) + _tv(17, number(4, _R.CONTROL_UP)) + _tv(127, number(4, _R.IMSI))
    nodes = _tlv_1(133, number(4, _R.GATEWAY_IP)) + _tlv_1(133, number(4, _R.GATEWAY_IP))
    if event == "move":
        return accepted + ids + nodes + _tlv_1(135, raw(_QOS))
    both = raw(b"\xf1\x8d") + number(4, _R.SUBSCRIBER_IP) + number(8, _R.V6_HIGH) + number(8, _R.V6_LOW)
    return accepted + raw(b"\x08\xfe\x0e\x01") + ids + _tlv_1(128, both) + nodes + _tlv_1(135, raw(_QOS))


def _version_2(event: Event) -> tuple[Message, Message]:
    to_gateway = raw(bytes(4)) if event == "create" else number(4, _R.CONTROL_UP)
    asked, answered = _V2[event]
    return (
        _packet_2(asked, to_gateway, _request_2(event)),
        _packet_2(answered, number(4, _R.CONTROL_DOWN), _response_2(event)),
    )


def _packet_2(kind: int, teid: Message, elements: Message) -> Message:
    rest = teid + number(3, _R.NUMBER) + raw(b"\0") + elements
    return raw(bytes([0x48, kind])) + sized(2, rest)


def _ie(kind: int, value: Message, instance: int = 0) -> Message:
    return raw(bytes([kind]) + u16(len(value)) + bytes([instance])) + value


def _fteid(interface: int, teid: Register, address: Register, instance: int = 0) -> Message:
    return _ie(87, raw(bytes([0x80 | interface])) + number(4, teid) + number(4, address), instance)


def _location_2() -> Message:
    """User location information with TAI and ECGI."""
    area = raw(PLMN) + number(2, _R.AREA)
    return _ie(86, raw(b"\x18") + area + raw(PLMN) + number(4, _R.CELL))


def _request_2(event: Event) -> Message:
    bearer = _ie(73, raw(b"\x05"))
    if event == "delete":
        return bearer + _location_2()
    context = bearer + _fteid(4, _R.TEID_DOWN, _R.SERVING_IP, 2)
    if event == "move":
        moved = bearer + _fteid(4, _R.TEID_DOWN, _R.SERVING_IP, 1)
        return _location_2() + _ie(83, raw(PLMN)) + _ie(82, raw(b"\x06")) + _ie(93, moved)
    out = _ie(1, bcd(IMSI_DIGITS, _R.IMSI)) + _ie(76, bcd(MSISDN_DIGITS, _R.MSISDN)) + _location_2()
    out += _ie(83, raw(PLMN)) + _ie(82, raw(b"\x06")) + _fteid(6, _R.CONTROL_DOWN, _R.SERVING_IP)
    out += _ie(71, raw(APN)) + _ie(128, raw(b"\0")) + _ie(99, raw(b"\x03"))
    out += _ie(79, raw(b"\x03\x40" + bytes(16) + bytes(4))) + _ie(72, raw(u16(0, 50_000, 0, 50_000)))
    quality = raw(b"\x4c\x09" + bytes(20))
    return out + _ie(93, context + _ie(80, quality))


def _response_2(event: Event) -> Message:
    accepted = _ie(2, raw(b"\x10\0"))
    if event == "delete":
        return accepted
    context = _ie(73, raw(b"\x05")) + accepted
    if event == "move":
        return accepted + _ie(93, context)
    out = accepted + _fteid(7, _R.CONTROL_UP, _R.GATEWAY_IP, 1)
    both = raw(b"\x03\x40") + number(8, _R.V6_HIGH) + number(8, _R.V6_LOW) + number(4, _R.SUBSCRIBER_IP)
    return out + _ie(79, both) + _ie(93, context + _fteid(5, _R.TEID_UP, _R.GATEWAY_IP, 2))
