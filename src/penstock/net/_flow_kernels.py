"""The numba kernel of the flow table."""

from __future__ import annotations

from penstock.frames._jit import Column, kernel

# Values of a flow, as columns of what has ended.
FIRST, LAST, IS_FORWARD, SRC_PACKETS, SRC_BYTES, DST_PACKETS, DST_BYTES, SRC_FLAGS, DST_FLAGS = range(9)
VALUES = 9


@kernel
def take(
    rows: Column, times: Column, lengths: Column, forward: Column, flags: Column, idle: int, active: int,
    first: Column, last: Column, is_forward: Column, packets: Column, sizes: Column, seen: Column,
    back_packets: Column, back_sizes: Column, back_seen: Column, ended_rows: Column, ended: Column,
) -> int:  # fmt: skip
    """Add packets to their flows in order; a flow that a packet comes too late for ends and begins anew.

    Returns how many have ended; their rows and values are in ``ended_rows`` and ``ended``.
    """
    n = 0
    for i in range(len(rows)):
        r, t = rows[i], times[i]
        if packets[r] + back_packets[r] > 0 and (t - last[r] > idle or t - first[r] > active):
            ended_rows[n] = r
            ended[FIRST, n], ended[LAST, n], ended[IS_FORWARD, n] = first[r], last[r], is_forward[r]
            ended[SRC_PACKETS, n], ended[SRC_BYTES, n], ended[SRC_FLAGS, n] = packets[r], sizes[r], seen[r]
            ended[DST_PACKETS, n], ended[DST_BYTES, n] = back_packets[r], back_sizes[r]
            ended[DST_FLAGS, n] = back_seen[r]
            n += 1
            packets[r] = back_packets[r] = sizes[r] = back_sizes[r] = seen[r] = back_seen[r] = 0
        if packets[r] + back_packets[r] == 0:
            first[r], last[r], is_forward[r] = t, t, forward[i]
        first[r], last[r] = min(first[r], t), max(last[r], t)
        if forward[i] == is_forward[r]:
            packets[r] += 1
            sizes[r] += lengths[i]
            seen[r] |= flags[i]
        else:
            back_packets[r] += 1
            back_sizes[r] += lengths[i]
            back_seen[r] |= flags[i]
    return n
