"""The loop that feeds flows to nDPI, through the functions of nfstream's engine."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from penstock.frames._jit import Column, kernel, step
from penstock.net.dpi import records as r
from penstock.net.dpi._ip import packet
from penstock.net.dpi._native import as_pointer, call
from penstock.net.dpi.records import get, put, record_end

# Places of what is passed in `addresses` and `places`.
INITIALIZE, UPDATE, EXPIRE, FREE, DISSECTOR = range(5)
(
    P_TIME, P_SRC_IP, P_DST_IP, P_SRC_PORT, P_DST_PORT, P_VERSION, P_PROTOCOL, P_RAW, P_IP, P_TRANSPORT,
    P_PAYLOAD, P_LENGTH, P_CONTENT, F_NAME, F_CATEGORY, F_HOST, F_NDPI, F_MASTER, F_APPLICATION, F_CONFIDENCE,
    F_CATEGORY_ID, N_STATE, FLOW_BYTES,
) = range(23)  # fmt: skip
PLACES = 23
NAME, HOST = 40, 80
# Rows of the answers.
DECIDED, MASTER, APPLICATION, CONFIDENCE, CATEGORY_ID = range(5)
ANSWERS = 5
_CLASSIFIED = 3
_NEVER_GUESS = np.int64(255)  # packets after which nfstream itself would guess; more than are ever given
_LONG = np.int64(1 << 62)
_ZERO, _ONE = np.int64(0), np.int64(1)


@step
def fill(nf: Any, places: Any, length: Any, start: Any, protocol: Any, size: Any, time_us: Any) -> None:
    """The part of nfstream's packet that its engine reads besides the bytes."""
    put(nf, places[P_TIME], time_us // 1000, 8)
    nf[places[P_VERSION]] = 4 if start == 20 else 6
    nf[places[P_PROTOCOL]] = protocol
    put(nf, places[P_RAW], length, 2)
    put(nf, places[P_IP], length, 2)
    put(nf, places[P_TRANSPORT], length - start, 2)
    put(nf, places[P_PAYLOAD], size, 2)
    put(nf, places[P_LENGTH], length, 2)


@step
def fill_ends(nf: Any, places: Any, src_low: Any, dst_low: Any, src_port: Any, dst_port: Any) -> None:
    """Addresses only tell nfstream the direction: the halves that differ do."""
    put(nf, places[P_SRC_IP], np.int64(src_low), 8)
    put(nf, places[P_DST_IP], np.int64(dst_low), 8)
    put(nf, places[P_SRC_PORT], np.int64(src_port), 2)
    put(nf, places[P_DST_PORT], np.int64(dst_port), 2)


@kernel
def judge(
    data: Column, ends: Column, src_high: Column, src_low: Column, dst_high: Column, dst_low: Column,
    src_port: Column, dst_port: Column, protocol: Column, is_last: Column, addresses: Column, places: Column,
    nf: Column, content: Column, answers: Column, names: Column, categories: Column, hosts: Column,
) -> int:  # fmt: skip
    """Feed each flow's records in order; returns how many flows nDPI had no memory for."""
    failed = 0
    module, nf_address = addresses[DISSECTOR], np.int64(nf.ctypes.data)
    put(nf, places[P_CONTENT], np.int64(content.ctypes.data), 8)
    for f in range(len(ends) - 1):
        at, stop, flow, state = ends[f], ends[f + 1], np.int64(0), np.int64(0)
        end = record_end(data, at, stop)
        while end >= 0 and state != _CLASSIFIED:
            size = get(data, at + r.KEPT, 2)
            if data[at + r.IS_REPLY]:
                length, start = packet(data, at, dst_high[f], dst_low[f], src_high[f], src_low[f],
                                       dst_port[f], src_port[f], protocol[f], content)  # fmt: skip
                fill_ends(nf, places, dst_low[f], src_low[f], dst_port[f], src_port[f])
            else:
                length, start = packet(data, at, src_high[f], src_low[f], dst_high[f], dst_low[f],
                                       src_port[f], dst_port[f], protocol[f], content)  # fmt: skip
                fill_ends(nf, places, src_low[f], dst_low[f], src_port[f], dst_port[f])
            fill(nf, places, length, start, protocol[f], size, get(data, at + r.TIME, 8))
            if flow == 0:
                flow = call(addresses[INITIALIZE],
                            (nf_address, _ZERO, _ZERO, _ZERO, _NEVER_GUESS, module, _ZERO))  # fmt: skip
                if flow == 0:
                    failed += 1
                    break
            else:
                call(addresses[UPDATE], (flow, nf_address, _LONG, _LONG, _ZERO, _ZERO, _ZERO,
                                         _NEVER_GUESS, module, _ZERO))  # fmt: skip
            view = carray(as_pointer(flow), (places[FLOW_BYTES],), np.uint8)
            inner = carray(as_pointer(get(view, places[F_NDPI], 8)), (places[N_STATE] + 4,), np.uint8)
            state = get(inner, places[N_STATE], 4)
            at = end
            end = record_end(data, at, stop)
        if flow != 0:
            if state == _CLASSIFIED or is_last[f]:
                call(addresses[EXPIRE], (flow, _NEVER_GUESS, module))
                view = carray(as_pointer(flow), (places[FLOW_BYTES],), np.uint8)
                answers[DECIDED, f] = 1
                answers[MASTER, f] = get(view, places[F_MASTER], 2)
                answers[APPLICATION, f] = get(view, places[F_APPLICATION], 2)
                answers[CONFIDENCE, f] = get(view, places[F_CONFIDENCE], 4)
                answers[CATEGORY_ID, f] = get(view, places[F_CATEGORY_ID], 4)
                names[f, :] = view[places[F_NAME] : places[F_NAME] + NAME]
                categories[f, :] = view[places[F_CATEGORY] : places[F_CATEGORY] + NAME]
                hosts[f, :] = view[places[F_HOST] : places[F_HOST] + HOST]
            call(addresses[FREE], (flow, _NEVER_GUESS, _ZERO, _ONE))
        elif is_last[f]:
            answers[DECIDED, f] = 1
    return failed
