"""First packets as bytes: one record per packet, the same in the state and in an engine's hands.

A record is 24 bytes (time in µs, sequence and acknowledgement, bytes kept, bytes on the wire, TCP flags,
direction, ICMP type and code; all little endian) and the kept bytes of the payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step

TIME, SEQ, ACK, KEPT, WIRE, FLAGS, IS_REPLY, ICMP_TYPE, ICMP_CODE = 0, 8, 12, 16, 18, 20, 21, 22, 23
HEAD = 24
_HEAD = struct.Struct("<qIIHHBBBB")


class Record(NamedTuple):
    """One packet of a flow."""

    payload: bytes
    is_reply: bool = False
    time_us: int = 0
    tcp_seq: int = 0
    tcp_ack: int = 0
    tcp_flags: int = 0
    icmp_type: int = 0
    icmp_code: int = 0


def pack(packets: list[Record]) -> bytes:
    """The packets of a flow as records.

    >>> [record.payload for record in unpack(pack([Record(b"one"), Record(b"", is_reply=True)]))]
    [b'one', b'']
    """
    return b"".join(
        _HEAD.pack(p.time_us, p.tcp_seq, p.tcp_ack, len(p.payload), len(p.payload), p.tcp_flags,
                   p.is_reply, p.icmp_type, p.icmp_code) + p.payload
        for p in packets
    )  # fmt: skip


def unpack(data: bytes) -> Iterator[Record]:
    """The packets that records hold."""
    at = 0
    while at + HEAD <= len(data):
        time, seq, ack, kept, _, flags, is_reply, kind, code = _HEAD.unpack_from(data, at)
        at += HEAD
        yield Record(bytes(data[at : at + kept]), bool(is_reply), time, seq, ack, flags, kind, code)
        at += kept


@step
def put(data: Any, at: Any, number: Any, size: Any) -> None:
    for k in range(size):
        data[at + k] = np.uint8((number >> (8 * k)) & 255)


@step
def get(data: Any, at: Any, size: Any) -> Any:
    number = np.int64(0)
    for k in range(size):
        number |= np.int64(data[at + k]) << (8 * k)
    return number


@step
def record_end(data: Any, at: Any, stop: Any) -> Any:
    """Where the record ends; -1 if it is cut off."""
    if at + HEAD > stop:
        return -1
    end = at + HEAD + get(data, at + KEPT, 2)
    return end if end <= stop else -1


@bounded(
    "len(groups) == len(is_reply) == len(times) == len(seqs) == len(acks) == len(wires) == len(room)",
    "len(groups) == len(flags) == len(kinds) == len(codes) == len(begins)",
    "len(groups) == 0 or (0 <= groups.min() and groups.max() < len(cursor))",
    "HEAD * len(groups) + room.sum() <= len(data) and (room >= 0).all()",
)
@kernel
def write(
    groups: Column, is_reply: Column, times: Column, seqs: Column, acks: Column, wires: Column,
    flags: Column, kinds: Column, codes: Column, room: Column, cursor: Column, data: Column, begins: Column,
) -> None:  # fmt: skip
    """Write packets behind each other in the place of their flow, and where the payload of each begins.

    A payload has as many bytes as it is given room; they are not written here.
    """
    for i in range(len(groups)):
        g = groups[i]
        at = cursor[g]
        size = np.int64(room[i])
        put(data, at + TIME, np.int64(times[i]), 8)
        put(data, at + SEQ, np.int64(seqs[i]), 4)
        put(data, at + ACK, np.int64(acks[i]), 4)
        put(data, at + KEPT, size, 2)
        put(data, at + WIRE, min(np.int64(wires[i]), np.int64(65535)), 2)
        data[at + FLAGS] = flags[i]
        data[at + IS_REPLY] = is_reply[i]
        data[at + ICMP_TYPE] = kinds[i]
        data[at + ICMP_CODE] = codes[i]
        begins[i] = at + HEAD
        cursor[g] = at + HEAD + size
