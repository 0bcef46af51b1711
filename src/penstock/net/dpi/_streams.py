"""Numba steps that put the payloads of one direction in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import step
from penstock.net.dpi import records as r
from penstock.net.dpi.records import get, record_end

_SYN = 2
_WORD = np.int64(0xFFFFFFFF)


@step
def first_seq(data: Any, at: Any, stop: Any, is_reply: Any) -> Any:
    """The number of the stream's first byte, as far as is known; -1 if this direction is silent."""
    end = record_end(data, at, stop)
    while end >= 0:
        if data[at + r.IS_REPLY] == is_reply:
            seq = get(data, at + r.SEQ, 4)
            if data[at + r.FLAGS] & _SYN:
                return (seq + 1) & _WORD
            if get(data, at + r.KEPT, 2) > 0:
                return seq
        at = end
        end = record_end(data, at, stop)
    return np.int64(-1)


@step
def stream(data: Any, begin: Any, stop: Any, is_reply: Any, out: Any) -> Any:
    """The bytes of a TCP stream from its start, without repeats, up to the first gap; returns how many."""
    following = first_seq(data, begin, stop, is_reply)
    size, has_grown = 0, following >= 0
    while has_grown and size < len(out):
        has_grown, at = False, begin
        end = record_end(data, at, stop)
        while end >= 0:
            known = (following - get(data, at + r.SEQ, 4)) & _WORD
            kept = get(data, at + r.KEPT, 2)
            if data[at + r.IS_REPLY] == is_reply and known < kept and not data[at + r.FLAGS] & _SYN:
                taken = min(kept - known, len(out) - size)
                for k in range(taken):
                    out[size + k] = data[at + r.HEAD + known + k]
                size += taken
                following = (following + kept - known) & _WORD
                has_grown = True
            at = end
            end = record_end(data, at, stop)
    return size
