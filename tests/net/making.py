"""Packets and captures made by hand, small enough to be read."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

Order = Literal["<", ">"]
ETHERNET = 1


def ethernet(payload: bytes, kind: int = 0x0800, tags: Sequence[tuple[int, int]] = ()) -> bytes:
    head = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"
    for tag_kind, tag in tags:
        head += struct.pack(">HH", tag_kind, tag)
    return head + struct.pack(">H", kind) + payload


def ipv4(
    payload: bytes, protocol: int = 17, *, src: str = "10.0.0.1", dst: str = "10.0.0.2", options: bytes = b"",
    total: int | None = None, fragment: int = 0,
) -> bytes:  # fmt: skip
    length = 20 + len(options) + len(payload) if total is None else total
    first = 0x45 + len(options) // 4
    addresses = bytes(int(part) for part in (src + "." + dst).split("."))
    return (
        struct.pack(">BBHHHBBH", first, 0, length, 7, fragment, 64, protocol, 0)
        + addresses
        + options
        + payload
    )


def ipv6(payload: bytes, following: int = 17, *, src: int = 1, dst: int = 2) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(payload), following, 60)
    return head + src.to_bytes(16, "big") + dst.to_bytes(16, "big") + payload


def udp(payload: bytes, src: int = 1111, dst: int = 2222) -> bytes:
    return struct.pack(">HHHH", src, dst, 8 + len(payload), 0) + payload


def tcp(payload: bytes, src: int = 1111, dst: int = 80, flags: int = 0x18, options: bytes = b"") -> bytes:
    head = struct.pack(">HHIIBBHHH", src, dst, 100, 200, (5 + len(options) // 4) << 4, flags, 512, 0, 0)
    return head + options + payload


def gtp(payload: bytes, teid: int = 0xCAFE, extensions: Sequence[bytes] = ()) -> bytes:
    """Each extension is (content of 4n-2 bytes); all get the type 0x85."""
    rest = b""
    if extensions:
        rest = b"\0\0\0\x85"
        for i, content in enumerate(extensions):
            following = b"\x85" if i + 1 < len(extensions) else b"\0"
            rest += bytes([(len(content) + 2) // 4]) + content + following
    flags = 0x34 if extensions else 0x30
    return struct.pack(">BBHI", flags, 255, len(rest) + len(payload), teid) + rest + payload


def pcap(
    packets: Sequence[bytes], *, order: Order = "<", is_nano: bool = False, link: int = ETHERNET,
    snap: int = 65535, start_s: int = 1_700_000_000, step_s: int = 1,
) -> bytes:  # fmt: skip
    magic = 0xA1B23C4D if is_nano else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for i, packet in enumerate(packets):
        kept = packet[:snap]
        parts += (struct.pack(f"{order}IIII", start_s + i * step_s, i, len(kept), len(packet)), kept)
    return b"".join(parts)


def block(kind: int, body: bytes, order: Order = "<") -> bytes:
    body += b"\0" * (-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: Order = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    link: int = ETHERNET,
    snap: int = 0,
    order: Order = "<",
    *,
    resolution: int | None = None,
    offset_s: int | None = None,
) -> bytes:
    options = b""
    if resolution is not None:
        options += struct.pack(f"{order}HHB3x", 9, 1, resolution)
    if offset_s is not None:
        options += struct.pack(f"{order}HHq", 14, 8, offset_s)
    return block(1, struct.pack(f"{order}HHI", link, 0, snap) + options, order)


def enhanced(packet: bytes, ticks: int, number: int = 0, order: Order = "<") -> bytes:
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(6, head + packet, order)


def simple(packet: bytes, order: Order = "<") -> bytes:
    return block(3, struct.pack(f"{order}I", len(packet)) + packet, order)


def obsolete(packet: bytes, ticks: int, number: int = 0, order: Order = "<") -> bytes:
    head = struct.pack(f"{order}HHIIII", number, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(2, head + packet, order)
