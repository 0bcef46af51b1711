"""The numba kernel that turns a block of Linux's packet ring into pcap records."""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net._bytes import in16, le32, u8

BLOCK_BYTES = 1 << 20
BLOCK_STATUS = 8
"""Where in a block it says whose it is; see the kernel's if_packet.h for this and all places below."""
_BLOCK_PACKETS, _BLOCK_FIRST = 12, 16
_NEXT, _SECONDS, _NANOSECONDS, _CAPTURED, _LENGTH, _STATUS, _MAC = 0, 4, 8, 12, 16, 20, 24
_TAG, _TAG_KIND, _DIRECTION = 32, 36, 58
_OUTGOING, _HAS_TAG, _HAS_TAG_KIND, _VLAN = 4, 0x10, 0x40, 0x8100
_ADDRESSES = 12
_RECORD = 16


@step
def _put32(out: Column, at: Any, value: Any) -> None:
    for k in range(4):
        out[at + k] = value >> (8 * k) & 255


# In the ring a packet takes the bytes that were captured and a header of 48 bytes (struct tpacket3_hdr); as a
# record it takes the same bytes, 16 of header and 4 of a VLAN tag. So records of a block fit into a block.
@bounded("0 <= block <= len(ring) - BLOCK_BYTES and len(out) >= BLOCK_BYTES")
@kernel
def take_block(ring: Column, block: int, snap_bytes: int, only_incoming: Any, out: Column) -> tuple[int, int]:
    """Write the packets of a block as records of nanosecond pcap; answers bytes written and packets.

    ``only_incoming`` is for loopback, where every packet goes out and comes in. A VLAN tag that the network
    card took off is put back.
    """
    at, size, packets = block + le32(ring, block + _BLOCK_FIRST), 0, 0
    for _ in range(le32(ring, block + _BLOCK_PACKETS)):
        if not (only_incoming and u8(ring, at + _DIRECTION) == _OUTGOING):
            captured, length = le32(ring, at + _CAPTURED), le32(ring, at + _LENGTH)
            data, place = at + in16(ring, at + _MAC, False), size + _RECORD
            tag = 4 if le32(ring, at + _STATUS) & _HAS_TAG and captured >= _ADDRESSES else 0
            head = _ADDRESSES if tag else 0
            kept = min(captured + tag, snap_bytes)
            for k in range(head):
                out[place + k] = ring[data + k]
            if tag:
                known = le32(ring, at + _STATUS) & _HAS_TAG_KIND
                kind = in16(ring, at + _TAG_KIND, False) if known else _VLAN
                out[place + 12], out[place + 13] = kind >> 8, kind & 255
                out[place + 14], out[place + 15] = ring[at + _TAG + 1], ring[at + _TAG]
            for k in range(head, captured):
                out[place + tag + k] = ring[data + k]
            _put32(out, size, le32(ring, at + _SECONDS))
            _put32(out, size + 4, le32(ring, at + _NANOSECONDS))
            _put32(out, size + 8, kept)
            _put32(out, size + 12, length + tag)
            size += _RECORD + kept
            packets += 1
        at += le32(ring, at + _NEXT)
    return size, packets
