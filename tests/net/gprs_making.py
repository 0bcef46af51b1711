"""Messages of GTP's control plane and frames of the Gb interface, made by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import polars as pl
from tests.net import making as m

from penstock.net.capture import Walk, read_header
from penstock.net.columns import TYPES
from penstock.net.decoding import decode_block
from penstock.net.feeds import BytesFeed
from penstock.net.opening import opened

ALL = tuple(TYPES)


def rows_of(packets: list[bytes], *, snap: int = 65535) -> pl.DataFrame:
    """Packets with all columns, their bytes too."""
    data = m.pcap(packets, snap=snap)
    header = read_header(data[:24])
    assert header is not None
    walk = Walk(header, BytesFeed(iter([data[24:]])), base=24)
    return pl.concat([decode_block(block, ALL) for block in walk.blocks()])


def read_all(path: Path) -> pl.DataFrame:
    """All packets of a capture, with their bytes."""
    with opened(str(path)) as (walk, _):
        return pl.concat([decode_block(block, ALL) for block in walk.blocks() if len(block)])


def sent(message: bytes, src: str, dst: str, port: int = 2123) -> bytes:
    """A message in a packet."""
    return m.ethernet(m.ipv4(m.udp(message, src=port, dst=port), src=src, dst=dst))


def ip(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


def bcd(digits: str, size: int = 0) -> bytes:
    padded = (digits + "f" * (len(digits) % 2)).ljust(2 * size, "f")
    return bytes(int(b + a, 16) for a, b in zip(padded[::2], padded[1::2], strict=True))


def v1(kind: int, teid: int, sequence: int, elements: bytes) -> bytes:
    return struct.pack(">BBHIHBB", 0x32, kind, 4 + len(elements), teid, sequence, 0, 0) + elements


def tlv_1(kind: int, value: bytes) -> bytes:
    return struct.pack(">BH", kind, len(value)) + value


def v2(kind: int, teid: int, sequence: int, elements: bytes) -> bytes:
    head = struct.pack(">BBHI", 0x48, kind, 8 + len(elements), teid)
    return head + sequence.to_bytes(3, "big") + b"\0" + elements


def tlv_2(kind: int, value: bytes, instance: int = 0) -> bytes:
    return struct.pack(">BHB", kind, len(value), instance) + value


def f_teid(interface: int, teid: int, address: str, instance: int = 0) -> bytes:
    return tlv_2(87, bytes([0x80 | interface]) + teid.to_bytes(4, "big") + ip(address), instance)


def bearer(number: int, *ends: bytes) -> bytes:
    return tlv_2(93, tlv_2(73, bytes([number])) + b"".join(ends))


ACCEPTED_2, REJECTED_2 = tlv_2(2, b"\x10\0"), tlv_2(2, b"\x49\0")


def location_2(area: int, cell: int) -> bytes:
    plmn = bytes.fromhex("62f220")
    return tlv_2(86, b"\x18" + plmn + struct.pack(">H", area) + plmn + struct.pack(">I", cell))


def gb_unit(
    llc: bytes, *, is_up: bool = True, tlli: int = 0xC0DEAD01, elements: bytes | None = None
) -> bytes:
    """A unit of NS with an LLC frame."""
    if elements is None:
        cell = b"\x08\x88" + bytes.fromhex("1122334050601234")
        imsi = b"\x0d\x88" + bytes.fromhex("1112131415161718")
        elements = cell if is_up else imsi
    head = b"\0\0\x10\x02" + bytes([is_up]) + tlli.to_bytes(4, "big") + b"\0\0\x04" + elements
    return head + b"\x0e" + struct.pack(">H", len(llc)) + llc


def sndcp(
    packet: bytes,
    *,
    flags: int = 0x65,
    coding: int = 0,
    sapi: int = 11,
    control: int = 0xC001,
    segment: int = 0,
    number: int = 0,
) -> bytes:
    """An LLC frame of SNDCP, with any check sequence."""
    middle = bytes([coding]) if flags & 0x40 else b""
    head = bytes([sapi]) + struct.pack(">H", control) + bytes([flags]) + middle
    return head + struct.pack(">H", segment << 12 | number) + packet + b"FCS"


def gb_segment(packet: bytes, segment: int, size: int, *, number: int = 0, tlli: int = 0xC0DEAD01) -> bytes:
    """A segment of a packet of a subscriber, in a captured packet."""
    begin, end = segment * size, (segment + 1) * size
    flags = 0x25 | (0x40 if segment == 0 else 0) | (0x10 if end < len(packet) else 0)
    return gb_sent(gb_unit(sndcp(packet[begin:end], flags=flags, segment=segment, number=number), tlli=tlli))


def gb_sent(frame: bytes) -> bytes:
    return m.ethernet(m.ipv4(m.udp(frame, src=1111, dst=23000), src="1.2.3.4", dst="5.6.7.8"))
