"""Numba kernel of the matcher: what happens to each controller, in the order of time."""

from __future__ import annotations

import numpy as np

from penstock.frames._jit import Column, bounded, kernel

TIME, STATION, IS_LIMIT, VOLUME, OUT = range(5)


# A point makes one notice at most.
@bounded(
    "out.shape[0] == OUT and min(out.shape[1], len(out_rates)) >= len(order)",
    "len(station) == len(moment) == len(size) == len(rate)",
    "len(volume) == len(rates) == len(is_limited)",
)
@kernel
def notices(
    order: Column, station: Column, moment: Column, size: Column, rate: Column, volume: Column, rates: Column,
    is_limited: Column, t1: float, t2: int, out: Column, out_rates: Column,
) -> int:  # fmt: skip
    """Take points in this order, judge after the last one of a moment; gives the number of notices."""
    count = 0
    for i in range(len(order)):
        p = order[i]
        s = station[p]
        volume[s] += size[p]
        if not np.isnan(rate[p]):
            rates[s] = rate[p]
        if i + 1 < len(order) and station[order[i + 1]] == s and moment[order[i + 1]] == moment[p]:
            continue
        is_over = rates[s] > t1 and volume[s] > t2
        if is_over != is_limited[s]:
            is_limited[s] = is_over
            out[TIME, count] = moment[p]
            out[STATION, count] = s
            out[IS_LIMIT, count] = is_over
            out[VOLUME, count] = volume[s]
            out_rates[count] = rates[s]
            count += 1
    return count
