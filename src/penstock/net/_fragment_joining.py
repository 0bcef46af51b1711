"""The numba kernels that write whole packets out of fragments."""

from __future__ import annotations

from typing import Any

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _fragment_layout as f
from penstock.net._bytes import be16
from penstock.net._gather import copy


@bounded("spans.shape == (f.SPAN, len(datagrams)) and len(head) == len(size)")
@kernel
def heads(datagrams: Column, spans: Column, head: Column, size: Column) -> None:
    """The fragment that begins each packet (of several the first), and the bytes that all of them hold."""
    for i in range(len(datagrams) - 1, -1, -1):
        k = datagrams[i]
        if k >= 0:
            if spans[f.BEGIN, i] == 0:
                head[k] = i
            size[k] = max(size[k], spans[f.END, i])


# A packet has the room of its head and of the furthest end that `heads` found among its fragments.
@bounded(
    "len(ends) == len(datagrams) + 1 and ends[-1] <= len(data)",
    "spans.shape == (f.SPAN, len(datagrams))",
    "len(head) + 1 == len(begin) + 1 == len(places) and places[-1] <= len(out)",
)
@kernel
def join(
    data: Column, ends: Column, datagrams: Column, spans: Column, head: Column, begin: Column, places: Column,
    out: Column,
) -> None:  # fmt: skip
    """Write packets: what was before the data of their first fragment, then the data of all.

    ``begin`` is where the packet begins in its first fragment. Of overlapping parts the first one wins: the
    fragments are copied in the reverse order of their arrival.
    """
    for i in range(len(datagrams) - 1, -1, -1):
        k = datagrams[i]
        if k >= 0:
            first = head[k]
            before = spans[f.AT, first] + spans[f.HEAD, first] - begin[k]
            at, source = places[k] + before + spans[f.BEGIN, i], ends[i] + spans[f.DATA, i]
            copy(data, source, out, at, spans[f.END, i] - spans[f.BEGIN, i])
    for k in range(len(head)):
        first = head[k]
        source, ip = ends[first] + begin[k], places[k] + spans[f.AT, first] - begin[k]
        copy(data, source, out, places[k], spans[f.AT, first] + spans[f.HEAD, first] - begin[k])
        if spans[f.VERSION, first] == 4:
            _mend_ipv4(out, ip, spans[f.HEAD, first], places[k + 1] - ip)
        else:
            _put16(out, ip + 4, places[k + 1] - ip - 40)
            out[places[k] + spans[f.PATCH, first] - begin[k]] = spans[f.FOLLOWING, first]


@step
def _mend_ipv4(out: Column, ip: Any, head: Any, total: Any) -> None:
    """Length, flags and checksum of a packet in one piece; no flag is left, as in Linux."""
    _put16(out, ip + 2, total)
    _put16(out, ip + 6, 0)
    _put16(out, ip + 10, 0)
    total_sum = 0
    for b in range(0, head, 2):
        total_sum += be16(out, ip + b)
    while total_sum > 0xFFFF:
        total_sum = (total_sum & 0xFFFF) + (total_sum >> 16)
    _put16(out, ip + 10, 0xFFFF - total_sum)


@step
def _put16(out: Column, at: Any, value: Any) -> None:
    out[at] = value >> 8
    out[at + 1] = value & 255
