"""Numba kernel of the joiner: EDRs and events of each subscriber in the order of time."""

from __future__ import annotations

from penstock.frames._jit import Column, bounded, kernel

TIME, SIGNAL, QUOTA, USED, LIMIT, RENEWS, FREE, OUT = range(8)
A, B, C = range(3)


# A point makes one signal at most.
@bounded(
    "out.shape[0] == OUT and out.shape[1] >= len(order)",
    "len(time) == len(used) == len(limit) == len(renews) == len(free_until) == len(sent)",
    "len(seen) == len(plan)",
    "figures.shape[0] == 5 and figures.shape[1] >= edrs",
)
@kernel
def signals(
    order: Column, edrs: int, standing: Column, quota: Column, figures: Column, seen: Column, plan: Column,
    time: Column, used: Column, limit: Column, renews: Column, free_until: Column, sent: Column,
    window: int, free: float, out: Column,
) -> int:  # fmt: skip
    """Take points in this order, the first ``edrs`` of which are EDRs; gives the number of signals."""
    count = 0
    subscriber, q = -1, -1
    for p in order:
        if standing[p] != subscriber:
            subscriber, q = standing[p], -1
        now = figures[0, p]
        if p < edrs:
            q = quota[p]
            if limit[q] != figures[2, p] or renews[q] != figures[3, p]:
                sent[q] = 0
            time[q], used[q], limit[q], renews[q] = now, figures[1, p], figures[2, p], figures[3, p]
            seen[subscriber], plan[subscriber] = now, figures[4, p]
            continue
        if q < 0:
            q = quota[p]
        if q < 0 or now - time[q] > window:
            continue
        signal = A
        if used[q] >= limit[q]:
            signal = B
            if sent[q] & (1 << B):
                signal = C
                if used[q] < free_until[q]:
                    continue
        if sent[q] & (1 << signal):
            continue
        sent[q] |= 1 << signal
        granted = 0
        if signal == B:
            granted = int(limit[q] * free)
            free_until[q] = used[q] + granted
        out[TIME, count] = now
        out[SIGNAL, count] = signal
        out[QUOTA, count] = q
        out[USED, count] = used[q]
        out[LIMIT, count] = limit[q]
        out[RENEWS, count] = renews[q]
        out[FREE, count] = granted
        count += 1
    return count
