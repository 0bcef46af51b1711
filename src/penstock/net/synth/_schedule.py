"""The kernel that lays out the packets of exchanges in time, with all that goes wrong on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net.synth import _settings as s
from penstock.net.synth import catalogue as c
from penstock.net.synth._mixing import mix
from penstock.net.synth.message import Register

_SCRIPT, _START, _HASH = int(Register.SCRIPT), int(Register.START_US), int(Register.HASH)
_TUNNELLED, _VERSION = int(Register.IS_TUNNELLED), int(Register.VERSION)
_TCP = 6
_LONGEST_WAIT_US, _TIMEOUT_US, _SPREAD_US = 200_000, 200_000, 50_000
SLACK_US = 2 * _TIMEOUT_US + _SPREAD_US + 2
"""How much later than its script says a packet can come."""
_LEAST_FRAGMENTED = 64


@step
def _hits(noise: Any, which: Any, ratio: Any) -> Any:
    return np.int64(noise >> np.uint64(16 * which) & np.uint64(0xFFFF)) < ratio


@step
def _can_be_cut(steps: Column, i: Any, row: Column) -> Any:
    """Fragments are made of the outermost packet, and of IPv4 only."""
    return (row[_TUNNELLED] or row[_VERSION] == 4) and steps[i, c.LENGTH] >= _LEAST_FRAGMENTED


# A packet is cut in two or sent twice, never both.
@bounded("len(packets) == len(keys) >= 2 * np.diff(begins)[exchanges[:, _SCRIPT]].sum()")
@kernel
def schedule(
    exchanges: Column, control: int, steps: Column, begins: Column, settings: Column,
    begin_us: int, end_us: int, keys: Column, packets: Column,
) -> int:  # fmt: skip
    """Packets from ``begin_us`` to ``end_us``; the first ``control`` exchanges suffer nothing.

    A key holds the time in the window and the place among the other outputs, so that sorting keys gives
    one order whatever the machine. Returns how many there are.
    """
    n = 0
    for e in range(exchanges.shape[0]):
        row = exchanges[e]
        start, stop = row[_START], begins[row[_SCRIPT] + 1]
        for i in range(begins[row[_SCRIPT]], stop):
            time_us, kind, again_us = start + steps[i, c.TIME_US], s.USUAL, np.int64(-1)
            if e >= control:
                noise = mix(np.uint64(row[_HASH]) + np.uint64(i))
                if _hits(noise, 0, settings[s.LOSS]):
                    continue
                if i + 1 < stop and _hits(noise, 1, settings[s.DISORDER]):
                    later_us = start + steps[i + 1, c.TIME_US] + 1
                    if later_us - time_us <= _LONGEST_WAIT_US:
                        time_us = later_us
                if (
                    steps[i, c.PROTOCOL] == _TCP
                    and steps[i, c.LENGTH] > steps[i, c.OPTION_BYTES]
                    and _hits(noise, 2, settings[s.RETRANSMISSION])
                ):
                    again_us = time_us + _TIMEOUT_US + np.int64(noise >> np.uint64(40)) % _SPREAD_US
                    kind = s.RETRANSMITTED
                elif _hits(noise, 3, settings[s.FRAGMENTS]) and _can_be_cut(steps, i, row):
                    again_us, kind = time_us + 1, s.LAST_FRAGMENT
            if begin_us <= time_us < end_us:
                first = s.FIRST_FRAGMENT if kind == s.LAST_FRAGMENT else s.USUAL
                keys[n] = (time_us - begin_us) << s.PLACE_BITS | n
                packets[n] = (e << s.STEP_BITS | i) << s.KIND_BITS | first
                n += 1
            if begin_us <= again_us < end_us:
                keys[n] = (again_us - begin_us) << s.PLACE_BITS | n
                packets[n] = (e << s.STEP_BITS | i) << s.KIND_BITS | kind
                n += 1
    return n
