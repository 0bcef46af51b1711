"""Numba kernels that make up EDRs and streaming events from their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.frames._kernels import mix

START_US = 1_767_225_600_000_000  # 2026-01-01
SPAN_US = 3_600_000_000
LATENESS_US = 2_000_000
FIRST_NUMBER = 49_170_000_000_00
PLANS = 5
GIGABYTE = 1_000_000_000
MONTH_US = 31 * 86_400_000_000
TIME, MSISDN, PLAN, LIMIT, USED, RENEWS, COLUMNS = range(7)


@step
def dice(number: Any, seed: Any) -> Any:
    """A number that looks random, from 0 to 2^62."""
    return np.int64(mix(np.uint64(number) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)) >> np.uint64(2))


@step
def moment(number: Any, count: Any, chance: Any) -> Any:
    """Events come evenly, each up to the allowed lateness behind its turn."""
    return START_US + number * SPAN_US // count - chance % LATENESS_US


@bounded("out.shape[0] == COLUMNS")
@kernel
def edrs(first: int, count: int, subscribers: int, seed: int, out: Column) -> None:
    """EDRs number first and following, of ``count`` in all."""
    for i in range(out.shape[1]):
        chance = dice(first + i, seed)
        who = chance % subscribers
        time = moment(first + i, count, chance >> 32)
        habit = dice(who, seed + 1)  # what makes this subscriber: plan, use so far, thirst
        plan = habit % PLANS
        limit = (1 + plan) * GIGABYTE
        used = (habit >> 8) % 1000 * limit // 1000  # at the start, up to all of it
        if (habit >> 20) % 4:
            used //= 2  # most are far from their end
        grown = time - START_US
        used += grown * ((habit >> 24) % 64) // 64 * limit // SPAN_US // 2  # up to half in the hour
        renews = START_US + MONTH_US
        if (habit >> 32) % 16 == 0 and grown > SPAN_US // 2:
            if (habit >> 36) % 2:
                renews += MONTH_US  # a new month
                used //= 2
            else:
                limit *= 2  # bought more
        out[TIME, i] = time
        out[MSISDN, i] = FIRST_NUMBER + who
        out[PLAN, i] = plan
        out[LIMIT, i] = limit
        out[USED, i] = used
        out[RENEWS, i] = renews


@bounded("out.shape[0] == 3")
@kernel
def events(first: int, count: int, subscribers: int, seed: int, videos: int, out: Column) -> None:
    """Streaming events number first and following: time, msisdn, the number of the video."""
    for i in range(out.shape[1]):
        chance = dice(first + i, seed + 2)
        out[0, i] = moment(first + i, count, chance >> 32)
        out[1, i] = FIRST_NUMBER + chance % subscribers
        out[2, i] = (chance >> 24) % videos
