"""Reads captures the slow and obvious way, sharing nothing with the code under test."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

GTP_U, GTP_C = 2152, 2123


@dataclass(frozen=True)
class Packet:
    """The innermost packet of a frame; ``tunnel`` is its TEID, 0 outside of tunnels."""

    time_us: int
    frame_bytes: int
    src: bytes
    dst: bytes
    protocol: int
    body: bytes
    tunnel: int = 0
    identity: int = 0
    fragment: int = 0

    @property
    def ports(self) -> tuple[int, int]:
        src, dst = struct.unpack(">HH", self.body[:4])
        return src, dst

    @property
    def payload(self) -> bytes:
        return self.body[(self.body[12] >> 4) * 4 if self.protocol == 6 else 8 :]

    @property
    def flow(self) -> tuple[tuple[bytes, int], tuple[bytes, int], int]:
        first, second = sorted([(self.src, self.ports[0]), (self.dst, self.ports[1])])
        return first, second, self.protocol

    @property
    def way(self) -> tuple[bytes, int, bytes, int]:
        return self.src, self.ports[0], self.dst, self.ports[1]


def records(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Time in µs, captured bytes and length of each record of a little-endian pcap."""
    data = path.read_bytes()
    magic, *_, link = struct.unpack("<IHHiIII", data[:24])
    assert (magic, link) == (0xA1B2C3D4, 1)
    at = 24
    while at < len(data):
        seconds, micros, captured, length = struct.unpack("<IIII", data[at : at + 16])
        yield seconds * 1_000_000 + micros, data[at + 16 : at + 16 + captured], length
        at += 16 + captured
    assert at == len(data)


def word_sum(data: bytes) -> int:
    """The Internet checksum's sum; 0xFFFF over anything that holds its own checksum."""
    words = struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def packets(path: Path) -> Iterator[Packet]:
    """All packets as they are; every checksum and length in them is asserted."""
    for time_us, frame, length in records(path):
        assert len(frame) == length
        kind = struct.unpack(">H", frame[12:14])[0]
        packet = checked(frame[14:], time_us, length)
        assert kind == (0x0800 if frame[14] >> 4 == 4 else 0x86DD)
        yield inner(packet)


def checked(ip: bytes, time_us: int, length: int) -> Packet:
    """An IP packet whose checksums and lengths hold; what follows a fragment's header is not looked at."""
    if ip[0] >> 4 == 4:
        total, identity, fragment = struct.unpack(">HHH", ip[2:8])
        assert ip[0] == 0x45
        assert total == len(ip)
        assert word_sum(ip[:20]) == 0xFFFF
        fragment &= 0x3FFF
        packet = Packet(time_us, length, ip[12:16], ip[16:20], ip[9], ip[20:], 0, identity, fragment)
    else:
        assert ip[0] >> 4 == 6
        assert struct.unpack(">H", ip[4:6])[0] == len(ip) - 40
        packet = Packet(time_us, length, ip[8:24], ip[24:40], ip[6], ip[40:])
    if not packet.fragment:
        assert is_sound(packet)
    return packet


def is_sound(packet: Packet) -> bool:
    """Whether the checksum over TCP or UDP holds, and UDP's length."""
    pseudo = packet.src + packet.dst + struct.pack(">HH", packet.protocol, len(packet.body))
    is_udp = packet.protocol == 17
    if is_udp and struct.unpack(">H", packet.body[4:6])[0] != len(packet.body):
        return False
    return word_sum(pseudo + packet.body) == 0xFFFF


def inner(packet: Packet) -> Packet:
    """The packet in GTP-U, or the packet itself."""
    if packet.fragment or packet.protocol != 17 or packet.ports[1] != GTP_U:
        return packet
    flags, kind, size, teid = struct.unpack(">BBHI", packet.payload[:8])
    assert (flags, kind, size) == (0x30, 255, len(packet.payload) - 8)
    return replace(checked(packet.payload[8:], packet.time_us, packet.frame_bytes), tunnel=teid)


def joined(first: Packet, last: Packet) -> Packet:
    """Two fragments as the packet that they were, with its checksum asserted."""
    assert first.fragment == 0x2000
    assert last.fragment * 8 == len(first.body)
    whole = replace(first, body=first.body + last.body, fragment=0)
    assert is_sound(whole)
    return inner(whole)


def tbcd(data: bytes) -> str:
    """Telephony's digits."""
    return "".join(f"{byte & 15:x}{byte >> 4:x}" for byte in data).rstrip("f")


def elements_2(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, instance and value of GTP-C version 2's elements."""
    while message:
        kind, size, instance = struct.unpack(">BHB", message[:4])
        yield kind, instance, message[4 : 4 + size]
        message = message[4 + size :]


_FIXED_1 = {1: 1, 2: 8, 3: 6, 8: 1, 14: 1, 15: 1, 16: 4, 17: 4, 19: 1, 20: 1, 26: 2, 127: 4}


def elements_1(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of GTP-C version 1's elements."""
    while message:
        kind = message[0]
        if kind < 128:
            begin, size = 1, _FIXED_1[kind]
        else:
            begin, size = 3, struct.unpack(">H", message[1:3])[0]
        yield kind, message[begin : begin + size]
        message = message[begin + size :]
