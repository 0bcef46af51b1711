"""The loop that feeds flows to nDPI."""

from __future__ import annotations

import numpy as np

from penstock.frames._jit import Column, bounded, kernel
from penstock.net.dpi import abi
from penstock.net.dpi import records as r
from penstock.net.dpi._ip import packet
from penstock.net.dpi._native import call, call_for_struct
from penstock.net.dpi.records import get, record_end

# Places of what is passed in `addresses` and `places`.
MODULE, PROCESS, GIVE_UP, RELEASE = range(4)
ADDRESSES = 4
P_MASTER, P_APPLICATION, P_CATEGORY, F_STATE, F_CONFIDENCE, F_HOST = range(6)
PLACES = 6
LONGEST = 40 + 20 + 65_535
"""The longest packet that `packet` writes."""
# Rows of the answers.
DECIDED, MASTER, APPLICATION, CONFIDENCE, CATEGORY, HOST_SIZE = range(6)
ANSWERS = 6
_CLASSIFIED = 3
_NONE = np.int64(0)


@bounded(
    "ends[-1] <= len(data) and answers.shape == (ANSWERS, len(ends) - 1)",
    "all(len(ends) - 1 == len(part) for part in (src_high, src_low, dst_high, dst_low, src_port, dst_port))",
    "len(ends) - 1 == len(protocol) == len(is_last) and len(hosts) >= abi.HOST_BYTES * (len(ends) - 1)",
    "len(content) >= LONGEST and len(addresses) == ADDRESSES and len(places) == PLACES",
    "len(proto) == abi.RESULT_BYTES and len(flow) >= places[F_HOST] + abi.HOST_BYTES",
)
@kernel
def judge(
    data: Column, ends: Column, src_high: Column, src_low: Column, dst_high: Column, dst_low: Column,
    src_port: Column, dst_port: Column, protocol: Column, is_last: Column, addresses: Column, places: Column,
    flow: Column, proto: Column, content: Column, answers: Column, hosts: Column,
) -> int:  # fmt: skip
    """Feed each flow's records in order; returns how many bytes of hosts there are, one behind the other.

    ``flow``, ``proto`` and ``content`` are nDPI's flow, its answer and a packet: room that is used again.
    """
    module, size_of_hosts = addresses[MODULE], 0
    flow_at, proto_at = np.int64(flow.ctypes.data), np.int64(proto.ctypes.data)
    content_at = np.int64(content.ctypes.data)
    for f in range(len(ends) - 1):
        at, stop, state = ends[f], ends[f + 1], np.int64(0)
        end = record_end(data, at, stop)
        if end < 0:
            answers[DECIDED, f] = is_last[f]
            continue
        flow[:] = 0
        while end >= 0 and state != _CLASSIFIED:
            if data[at + r.IS_REPLY]:
                length = packet(data, at, dst_high[f], dst_low[f], src_high[f], src_low[f],
                                dst_port[f], src_port[f], protocol[f], content)  # fmt: skip
            else:
                length = packet(data, at, src_high[f], src_low[f], dst_high[f], dst_low[f],
                                src_port[f], dst_port[f], protocol[f], content)  # fmt: skip
            time_ms = get(data, at + r.TIME, 8) // 1000
            given = (module, flow_at, content_at, np.int64(length), time_ms, _NONE)
            call_for_struct(addresses[PROCESS], proto_at, given)
            state = get(flow, places[F_STATE], 4)
            at = end
            end = record_end(data, at, stop)
        if state == _CLASSIFIED or is_last[f]:
            if state != _CLASSIFIED:
                call_for_struct(addresses[GIVE_UP], proto_at, (module, flow_at))
            answers[DECIDED, f] = 1
            answers[MASTER, f] = get(proto, places[P_MASTER], 2)
            answers[APPLICATION, f] = get(proto, places[P_APPLICATION], 2)
            answers[CATEGORY, f] = get(proto, places[P_CATEGORY], 4)
            answers[CONFIDENCE, f] = get(flow, places[F_CONFIDENCE], 4)
            size, first = 0, places[F_HOST]
            while size < abi.HOST_BYTES and flow[first + size] != 0:
                hosts[size_of_hosts + size] = flow[first + size]
                size += 1
            answers[HOST_SIZE, f] = size
            size_of_hosts += size
        call(addresses[RELEASE], (flow_at,))
    return size_of_hosts
