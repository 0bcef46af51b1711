"""What clients and servers say first, made by hand, and flows that say it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from penstock.net.dpi.records import Record

SIP = b"REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1\r\nFrom: <sip:a@b>\r\n\r\n"
HTTP = b"GET /a HTTP/1.1\r\nUser-Agent: x\r\nHost: www.youtube.com:80\r\nAccept: */*\r\n\r\n"


def dns_query(host: str, number: int = 7) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
    return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0\0\x01\0\x01"


def client_hello(host: str, padding: int = 0) -> bytes:
    """A TLS 1.2 client hello with the extensions padding, server name and ALPN, in this order."""
    name = host.encode()
    server_name = struct.pack(">HHHBH", 0, len(name) + 5, len(name) + 3, 0, len(name)) + name
    alpn = struct.pack(">HHH", 16, 5, 3) + b"\x02h2"
    extensions = struct.pack(">HH", 21, padding) + bytes(padding) + server_name + alpn
    ciphers = b"\xc0\x2f\xc0\x30\x00\x9c\x00\x2f"
    body = b"\x03\x03" + bytes(range(32)) + b"\0" + struct.pack(">H", len(ciphers)) + ciphers + b"\x01\0"
    body += struct.pack(">H", len(extensions)) + extensions
    handshake = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(handshake)) + handshake


def rtp(number: int, source: int = 0xABCD) -> bytes:
    return struct.pack(">BBHII", 0x80, 0, number & 0xFFFF, 160 * number & 0xFFFFFFFF, source) + bytes(160)


def segments(*parts: bytes, first: int = 1000) -> list[Record]:
    """What a client sends over TCP, in order, after the connection was opened."""
    opened = [
        Record(b"", tcp_seq=first - 1, tcp_flags=2),
        Record(b"", is_reply=True, tcp_seq=77, tcp_flags=18),
    ]
    made, seq = [], first
    for part in parts:
        made.append(Record(part, tcp_seq=seq, tcp_ack=78, tcp_flags=24))
        seq += len(part)
    return opened + made


def answers(*parts: bytes, first: int = 78) -> list[Record]:
    made: list[Record] = []
    for part in parts:
        made.append(Record(part, is_reply=True, tcp_seq=first, tcp_flags=24))
        first += len(part)
    return made


def datagrams(payloads: Sequence[bytes]) -> list[Record]:
    return [Record(payload) for payload in payloads]
