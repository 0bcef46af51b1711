"""Numba steps that write an IP packet around a record, for engines that read packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import step
from penstock.net._gather import copy
from penstock.net.dpi import records as r
from penstock.net.dpi.records import get

TCP, UDP, ICMP, ICMP6, SCTP = 6, 17, 1, 58, 132
_MAPPED = np.uint64(0xFFFF)
_U32 = np.uint64(32)


@step
def big(out: Any, at: Any, number: Any, size: Any) -> None:
    for k in range(size):
        out[at + k] = np.uint8((np.uint64(number) >> np.uint64(8 * (size - 1 - k))) & np.uint64(255))


@step
def is_ipv4(high: Any, low: Any) -> Any:
    return high == 0 and low >> _U32 == _MAPPED


@step
def header_of(protocol: Any) -> Any:
    """The length of the transport header that is written."""
    if protocol == TCP:
        return 20
    if protocol == SCTP:
        return 12
    return 8 if protocol in (UDP, ICMP, ICMP6) else 0


@step
def packet(
    data: Any, at: Any, src_high: Any, src_low: Any, dst_high: Any, dst_low: Any, src_port: Any,
    dst_port: Any, protocol: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the packet of a record, whose ends are given as the packet's own; returns its length.

    What was not captured is left out, and the lengths say so.
    """
    size = get(data, at + r.KEPT, 2)
    head = header_of(protocol)
    is_four = is_ipv4(src_high, src_low) and is_ipv4(dst_high, dst_low)
    start = 20 if is_four else 40
    total = start + head + size
    out[: start + head] = 0
    if is_four:
        out[0], out[8], out[9] = 0x45, 64, protocol
        big(out, 2, total, 2)
        big(out, 12, src_low, 4)
        big(out, 16, dst_low, 4)
    else:
        out[0], out[6], out[7] = 0x60, protocol, 64
        big(out, 4, head + size, 2)
        big(out, 8, src_high, 8)
        big(out, 16, src_low, 8)
        big(out, 24, dst_high, 8)
        big(out, 32, dst_low, 8)
    if protocol in (ICMP, ICMP6):
        out[start], out[start + 1] = data[at + r.ICMP_TYPE], data[at + r.ICMP_CODE]
    elif head:
        big(out, start, src_port, 2)
        big(out, start + 2, dst_port, 2)
    if protocol == TCP:
        big(out, start + 4, get(data, at + r.SEQ, 4), 4)
        big(out, start + 8, get(data, at + r.ACK, 4), 4)
        out[start + 12], out[start + 13] = 0x50, data[at + r.FLAGS]
        big(out, start + 14, 0x2000, 2)
    elif protocol == UDP:
        big(out, start + 4, head + size, 2)
    copy(data, at + r.HEAD, out, start + head, size)
    return total
