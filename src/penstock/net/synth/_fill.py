"""The kernel that writes scheduled packets as bytes and keeps count of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net.synth import _settings as s
from penstock.net.synth import catalogue as c
from penstock.net.synth._draw import cell_at
from penstock.net.synth._frame import keep_fragment, put_frame
from penstock.net.synth._patch import put_le32
from penstock.net.synth.message import Register

_SUBSCRIBER, _HASH, _CELL = int(Register.SUBSCRIBER), int(Register.HASH), int(Register.CELL)
MOST_RECORD = 2_048
"""No record with its header is longer; messages are."""
_PCAP_HEADER, _BLOCK_HEADER, _BLOCK_END = 16, 28, 4
_MILLION, _CONTROL_PORT = 1_000_000, 2123


@step
def header_bytes(form: Any) -> Any:
    """How many bytes lie in front of a frame."""
    return _PCAP_HEADER if form == s.PCAP else _BLOCK_HEADER if form == s.PCAPNG else 0


@step
def wrap(out: Column, at: Any, captured: Any, length: Any, time_us: Any, form: Any) -> Any:
    """Write the record around a frame at ``at``; gives where the next record begins."""
    if form == s.PCAP:
        put_le32(out, at - 16, time_us // _MILLION)
        put_le32(out, at - 12, time_us % _MILLION)
        put_le32(out, at - 8, captured)
        put_le32(out, at - 4, length)
    elif form == s.PCAPNG:
        padding = -captured & 3
        total = _BLOCK_HEADER + captured + padding + _BLOCK_END
        put_le32(out, at - 28, 6)
        put_le32(out, at - 24, total)
        put_le32(out, at - 20, 0)
        put_le32(out, at - 16, time_us >> 32)
        put_le32(out, at - 12, time_us & 0xFFFFFFFF)
        put_le32(out, at - 8, captured)
        put_le32(out, at - 4, length)
        for k in range(padding):
            out[at + captured + k] = 0
        put_le32(out, at + captured + padding, total)
        return at + captured + padding + _BLOCK_END
    return at + captured


@step
def see(seen: Column, flow: Any, time_us: Any, length: Any, flags: Any, direction: Any) -> None:
    """Count a packet for its flow."""
    if seen[flow, s.UP_PACKETS] + seen[flow, s.DOWN_PACKETS] == 0:
        seen[flow, s.FIRST_US], seen[flow, s.SERVER_BEGAN] = time_us, direction
    seen[flow, s.LAST_US] = time_us
    at = s.DOWN_PACKETS if direction else s.UP_PACKETS
    seen[flow, at] += 1
    seen[flow, at + 1] += length
    seen[flow, at + 2] |= flags


# `catalogue._arrays` refuses a message that makes a record longer than MOST_RECORD.
@bounded(
    "stop <= len(keys) and len(out) >= MOST_RECORD",
    "places.shape[0] == 3 and lengths.shape == (2, places.shape[1])",
    "len(seen) >= 2 * len(exchanges) and len(cells) >= settings[s.CELLS]",
)
@kernel
def fill(
    keys: Column, first: int, stop: int, begin_us: int, packets: Column,
    exchanges: Column, steps: Column, patches: Column, arena: Column, settings: Column, out: Column,
    places: Column, lengths: Column, seen: Column, cells: Column,
) -> tuple[int, int]:  # fmt: skip
    """Write packets ``first`` to ``stop`` of a window as far as the buffer and the columns have room.

    ``places`` gets the place of each frame and its time in ns, ``lengths`` captured and whole.
    Returns the next packet and the bytes written.
    """
    at, form, snap = 0, settings[s.FORMAT], settings[s.SNAP_BYTES]
    lead = header_bytes(form)
    n = first
    while n < stop and at + MOST_RECORD <= len(out) and n - first < places.shape[1]:
        packet = packets[keys[n] & s.PLACE_MASK]
        time_us = begin_us + (keys[n] >> s.PLACE_BITS)
        kind, packet = packet & (1 << s.KIND_BITS) - 1, packet >> s.KIND_BITS
        e, step_number = packet >> s.STEP_BITS, packet & (1 << s.STEP_BITS) - 1
        identity = exchanges[e, _HASH] + 2 * step_number + (kind == s.RETRANSMITTED) & 0xFFFF
        frame = at + lead
        length = put_frame(out, frame, exchanges, e, steps, step_number, identity, patches, arena)
        if kind >= s.FIRST_FRAGMENT:
            length = keep_fragment(out, frame, length, kind == s.FIRST_FRAGMENT)
        captured = min(length, snap)
        at = wrap(out, frame, captured, length, settings[s.START_US] + time_us, form)
        places[0, n - first] = frame
        places[1, n - first] = frame
        places[2, n - first] = (settings[s.START_US] + time_us) * 1000
        lengths[0, n - first], lengths[1, n - first] = captured, length
        flags = np.int64(0) if kind == s.LAST_FRAGMENT else steps[step_number, c.FLAGS]
        flow = 2 * e + steps[step_number, c.CONVERSATION]
        see(seen, flow, time_us, length, flags, steps[step_number, c.DIRECTION])
        if steps[step_number, c.SERVER_PORT] != _CONTROL_PORT:
            cell = exchanges[e, _CELL] - 1
            if settings[s.STAY_WINDOWS]:
                cell = cell_at(settings, exchanges[e, _SUBSCRIBER], time_us)
            cells[cell, 0] += 1
            cells[cell, 1] += length
        n += 1
    return n, at
