"""The numba kernels of the flow table."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.frames._kernels import mix

# Values of a flow, as rows of what has ended.
FIRST, LAST, IS_FORWARD, SRC_PACKETS, SRC_BYTES, DST_PACKETS, DST_BYTES, SRC_FLAGS, DST_FLAGS = range(9)
VALUES = 9
_OTHER = np.uint64(0xC2B2AE3D27D4EB4F)
_ONE = np.uint64(1)
_U16, _U32 = np.uint64(16), np.uint64(32)
_BLOCK = 64


@bounded(
    "len(a_high) == len(a_low) == len(a_port) == len(b_high) == len(b_low) == len(b_port) == len(out)",
    "len(protocol) == len(vlan) == len(tunnel) == len(check) == len(out)",
)
@kernel
def fingerprint(
    a_high: Column, a_low: Column, a_port: Column, b_high: Column, b_low: Column, b_port: Column,
    protocol: Column, vlan: Column, tunnel: Column, out: Column, check: Column,
) -> None:  # fmt: skip
    """128 bits for each flow key: the number by which a flow is found, and what it is checked with."""
    for i in range(len(out)):
        ports = np.uint64(a_port[i]) | np.uint64(b_port[i]) << _U16 | np.uint64(protocol[i]) << _U32
        place = np.uint64(vlan[i]) << _U32 | np.uint64(tunnel[i])
        one = mix(np.uint64(a_low[i]) ^ mix(np.uint64(b_low[i]) + mix(ports)))
        two = mix(np.uint64(a_high[i]) + _OTHER ^ mix(np.uint64(b_high[i]) ^ mix(place)))
        out[i] = mix(one + mix(two))
        check[i] = mix(one * _OTHER ^ two) | _ONE


@step
def warm(rows: Any, begin: Any, size: Any, check: Any, last: Any, packets: Any, sizes: Any) -> Any:
    """Load what a block of packets will change; the loads do not wait for each other."""
    total = np.int64(0)
    for i in range(begin, begin + size):
        r = rows[i]
        total += np.int64(check[r]) + last[r] + packets[r] + sizes[r]
    return total


@step
def is_over(t: Any, first: Any, last: Any, idle: Any, active: Any) -> Any:
    """Whether a packet comes too late for its flow; one that is itself late never is."""
    return t - last > idle or (t - first > active and t >= last)


# A packet ends one flow at most, begins one at most, and misses one at most.
@bounded(
    "len(which) == len(rows)",
    "len(checks) == len(times) == len(lengths) == len(forward) == len(flags)",
    "len(check) == len(first) == len(last) == len(is_forward) == len(packets) == len(sizes) == len(seen)",
    "len(check) == len(back_packets) == len(back_sizes) == len(back_seen)",
    "min(len(ended_rows), len(ended_at), len(new), len(missed), ended.shape[1]) >= len(rows)",
    "ended.shape[0] == VALUES",
)
@kernel
def take(
    which: Column, rows: Column, checks: Column, times: Column, lengths: Column, forward: Column,
    flags: Column, idle: int, active: int, check: Column, first: Column, last: Column, is_forward: Column,
    packets: Column, sizes: Column, seen: Column, back_packets: Column, back_sizes: Column,
    back_seen: Column, ended_rows: Column, ended_at: Column, ended: Column, new: Column, missed: Column,
) -> tuple[int, int, int]:  # fmt: skip
    """Add packets to their flows in order; a flow that a packet comes too late for ends and begins anew.

    ``which`` are the packets and ``rows`` their rows. Returns how many flows have ended (``ended_rows`` and
    ``ended`` have their rows and values, ``ended_at`` the place in ``which`` of the packet that came too
    late), how many are new (``new`` has the places of their first packets), and how many packets met another
    flow in their row (``missed``).
    """
    n = begun = strange = warmth = 0
    for k in range(len(rows)):
        if k % _BLOCK == 0:
            warmth += warm(rows, k, min(_BLOCK, len(rows) - k), check, last, packets, sizes)
        i, r = which[k], rows[k]
        t = times[i]
        if check[r] != checks[i]:
            if check[r] != 0:
                missed[strange] = i
                strange += 1
                continue
            check[r] = checks[i]
            new[begun] = k
            begun += 1
            first[r], last[r], is_forward[r] = t, t, forward[i]
        elif is_over(t, first[r], last[r], idle, active):
            ended_rows[n], ended_at[n] = r, k
            ended[FIRST, n], ended[LAST, n], ended[IS_FORWARD, n] = first[r], last[r], is_forward[r]
            ended[SRC_PACKETS, n], ended[SRC_BYTES, n], ended[SRC_FLAGS, n] = packets[r], sizes[r], seen[r]
            ended[DST_PACKETS, n], ended[DST_BYTES, n] = back_packets[r], back_sizes[r]
            ended[DST_FLAGS, n] = back_seen[r]
            n += 1
            packets[r] = back_packets[r] = sizes[r] = back_sizes[r] = seen[r] = back_seen[r] = 0
            first[r], last[r], is_forward[r] = t, t, forward[i]
        elif t > last[r]:
            last[r] = t
        elif t < first[r] and first[r] - t <= idle:  # a flow has no longer pause: its packet is dated wrongly
            first[r] = t
        if forward[i] == is_forward[r]:
            packets[r] += 1
            sizes[r] += lengths[i]
            seen[r] |= flags[i]
        else:
            back_packets[r] += 1
            back_sizes[r] += lengths[i]
            back_seen[r] |= flags[i]
    # The warmth is used, or the compiler would leave the loads out.
    return n + (warmth & 0), begun, strange
