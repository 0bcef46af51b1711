"""The numba kernel that says which packets are kept for an engine, and who is judged now."""

from __future__ import annotations

import numpy as np

from penstock.frames._jit import Column, kernel

_TCP, _SYN = 6, 2
# Rows of what is known of a group: the packets, kept in this batch, of one life of a flow.
ROW, PACKETS, SIZE, HAS_PAST, IS_LAST, ENDED, FACTS = range(7)
# Rows of what is known of a flow that ended.
LABEL, GROUP, SUBSCRIBER = range(3)
ENDINGS = 3


@kernel
def pick(
    which: Column, rows: Column, ended_at: Column, sizes: Column, flags: Column, protocol: Column,
    imsis: Column, most_packets: int, most_bytes: int, head: int, verdict: Column, kept: Column,
    kept_bytes: Column, imsi: Column, group_of: Column, labels: Column, groups: Column, room: Column,
    facts: Column, ended: Column,
) -> int:  # fmt: skip
    """Give each packet the label of its flow, or a group if it is kept; returns how many groups there are.

    ``group_of`` has the group + 1 of each row, 0 at the start. ``ended`` gets the label of each flow that
    ended, the group + 1 of one that was not decided, and the subscriber. A TCP segment without payload says
    nothing, except when it opens a connection.
    """
    count = e = 0
    for k in range(len(rows)):
        i, r = which[k], rows[k]
        if e < len(ended_at) and ended_at[e] == k:
            ended[LABEL, e], ended[SUBSCRIBER, e] = verdict[r], imsi[r]
            if verdict[r] == 0:
                if group_of[r] == 0:
                    facts[:, count] = 0
                    facts[ROW, count], facts[HAS_PAST, count] = r, kept[r] > 0
                    count += 1
                    group_of[r] = count
                facts[IS_LAST, group_of[r] - 1] = facts[ENDED, group_of[r] - 1] = 1
            ended[GROUP, e] = group_of[r]
            verdict[r] = kept[r] = kept_bytes[r] = group_of[r] = imsi[r] = 0
            e += 1
        if imsis[i] != 0:
            imsi[r] = imsis[i]
        labels[i], groups[i] = verdict[r], -1
        if verdict[r] != 0 or kept[r] >= most_packets:
            continue
        if protocol[i] == _TCP and sizes[i] == 0 and flags[i] & _SYN == 0:
            continue
        if group_of[r] == 0:
            facts[:, count] = 0
            facts[ROW, count], facts[HAS_PAST, count] = r, kept[r] > 0
            count += 1
            group_of[r] = count
        g = group_of[r] - 1
        size = min(np.int64(sizes[i]), most_bytes - np.int64(kept_bytes[r]), np.int64(65535))
        groups[i], room[i] = g, size
        facts[PACKETS, g] += 1
        facts[SIZE, g] += head + size
        kept[r] += 1
        kept_bytes[r] += size
        if kept[r] >= most_packets or kept_bytes[r] >= most_bytes:
            facts[IS_LAST, g] = 1
            kept[r] = most_packets
    return count
