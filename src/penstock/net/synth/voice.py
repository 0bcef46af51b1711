"""Calls: SIP with RTP, and a messenger's voice over STUN and RTP."""

from __future__ import annotations

import random

from penstock.net.synth.message import (
    Message,
    Register,
    address_text,
    digits,
    masked,
    mixed,
    number,
    raw,
    text,
    u16,
)
from penstock.net.synth.script import MEDIA, TO_CLIENT, TO_SERVER, Direction, Script, Writer

_PCMU, _OPUS = 0, 111
_COOKIE = 0x2112A442
_FRAME_US = 20_000
_SALT = {TO_SERVER: Register.SALT, TO_CLIENT: Register.OTHER_SALT}
_MEDIA_PORT = {TO_SERVER: Register.CLIENT_MEDIA_PORT, TO_CLIENT: Register.SERVER_MEDIA_PORT}
_OWN_IP = {TO_SERVER: Register.CLIENT_IP, TO_CLIENT: Register.SERVER_IP}


def rtp(direction: Direction, n: int, kind: int, samples: int, sound: bytes) -> Message:
    """The n-th packet of one direction's sound; its source number comes from the exchange."""
    salt = _SALT[direction]
    head = raw(bytes([0x80, kind | (0x80 if n == 0 else 0)]))
    return head + number(2, salt, n) + number(4, salt, n * samples) + number(4, salt, 7) + raw(sound)


def _speak(
    writer: Writer, c: int, frames: int, kind: int, samples: int, size: int, rng: random.Random
) -> None:
    for n in range(frames):
        for direction in (TO_SERVER, TO_CLIENT):
            writer.say_at_once(c, direction, rtp(direction, n, kind, samples, rng.randbytes(size)))
        writer.pause(_FRAME_US)


def _sdp(direction: Direction) -> Message:
    address = address_text(_OWN_IP[direction])
    out = text("v=0\r\no=user 1 1 IN IP4 ") + address + text("\r\ns=call\r\nc=IN IP4 ") + address
    out += text("\r\nt=0 0\r\nm=audio ") + digits(5, _MEDIA_PORT[direction])
    return out + text(" RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n")


def _sip(first: str, host: str, command: str, body: Message | None = None) -> Message:
    out = text(f"{first}\r\nVia: SIP/2.0/UDP ") + address_text(Register.CLIENT_IP)
    out += text(":5060;branch=z9hG4bK") + digits(8, Register.HASH)
    out += text(f"\r\nMax-Forwards: 70\r\nFrom: <sip:ann@{host}>;tag=") + digits(6, Register.SALT)
    out += text(f"\r\nTo: <sip:bob@{host}>\r\nCall-ID: ") + digits(9, Register.HASH)
    out += text(f"@{host}\r\nCSeq: {command}\r\nContact: <sip:ann@") + address_text(Register.CLIENT_IP)
    kind = "Content-Type: application/sdp\r\n" if body else ""
    out += text(f":5060>\r\n{kind}Content-Length: {len(body or b'')}\r\n\r\n")
    return out + body if body else out


def sip_script(host: str, frames: int, rng: random.Random) -> Script:
    """A call that is set up, spoken for ``frames`` times 20 ms, and hung up."""
    writer = Writer("sip", host, round_trip_us=rng.randrange(10_000, 60_000))
    c, media = writer.udp("SIP", 5060), writer.udp("RTP", MEDIA)
    invite, bye = "1 INVITE", "2 BYE"
    writer.say(c, TO_SERVER, _sip(f"INVITE sip:bob@{host} SIP/2.0", host, invite, _sdp(TO_SERVER)))
    writer.say(c, TO_CLIENT, _sip("SIP/2.0 100 Trying", host, invite))
    writer.say(c, TO_CLIENT, _sip("SIP/2.0 180 Ringing", host, invite))
    writer.pause(rng.randrange(50_000, 400_000))
    writer.say(c, TO_CLIENT, _sip("SIP/2.0 200 OK", host, invite, _sdp(TO_CLIENT)))
    writer.say(c, TO_SERVER, _sip(f"ACK sip:bob@{host} SIP/2.0", host, "1 ACK"))
    _speak(writer, media, frames, _PCMU, 160, 160, rng)
    writer.say(c, TO_SERVER, _sip(f"BYE sip:bob@{host} SIP/2.0", host, bye))
    writer.say(c, TO_CLIENT, _sip("SIP/2.0 200 OK", host, bye))
    return writer.script(only_ipv4=True)


def _binding(kind: int, attributes: Message) -> Message:
    head = raw(u16(kind, len(attributes)) + _COOKIE.to_bytes(4, "big"))
    return head + mixed(12, Register.SALT) + attributes


def messenger_script(host: str, frames: int, rng: random.Random) -> Script:
    """A messenger's call: the way is found with STUN, then both speak on the same ports."""
    writer = Writer("messenger", host, round_trip_us=rng.randrange(10_000, 60_000))
    c = writer.udp("STUN", 3478)
    name = text("u:peer") + raw(bytes(2))
    asked = raw(u16(0x0006, 6)) + name + raw(u16(0x0024, 4) + b"\x6e\0\x1e\xff")
    port = masked(2, Register.CLIENT_PORT, _COOKIE >> 16)
    mapped = raw(u16(0x0020, 8, 0x0001)) + port + masked(4, Register.CLIENT_IP, _COOKIE)
    for _ in range(2):
        writer.say(c, TO_SERVER, _binding(0x0001, asked))
        writer.say(c, TO_CLIENT, _binding(0x0101, mapped))
    _speak(writer, c, frames, _OPUS, 960, rng.randrange(60, 120), rng)
    writer.say(c, TO_SERVER, _binding(0x0001, asked))
    writer.say(c, TO_CLIENT, _binding(0x0101, mapped))
    return writer.script(only_ipv4=True)
