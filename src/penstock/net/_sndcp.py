"""The numba kernel that reads the segments of SNDCP packets: whose they are, their number, their bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _gb as g
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, u8
from penstock.net._decode import decode_one

# The rows of the output. A packet that is no segment, or one that was not captured as a whole, has NUMBER -1.
(SRC_HIGH, SRC_LOW, DST_HIGH, DST_LOW, TLLI, NSAPI, NPDU, NUMBER, IS_FIRST, HAS_MORE, BEGIN, END) = range(12)
OUT = 12
_ENDS = (y.SRC_HIGH, y.SRC_LOW, y.DST_HIGH, y.DST_LOW)


@bounded(
    "len(ends) - 1 == len(lengths) == len(links) and ends[-1] <= len(data)",
    "out.shape == (OUT, len(lengths))",
)
@kernel
def segments(data: Column, ends: Column, lengths: Column, links: Column, out: Column) -> None:
    """One column of `out` per packet; a segment's bytes are between two places of its packet."""
    row = np.zeros(y.ROW, np.int64)
    for i in range(len(ends) - 1):
        row[:] = 0
        begin, captured = ends[i], ends[i + 1] - ends[i]
        decode_one(data, begin, captured, np.int64(lengths[i]), np.int64(links[i]), 0, row)
        at = begin + row[y.PAYLOAD_OFFSET]
        out[NUMBER, i] = -1
        _segment(data, at, min(ends[i + 1], at + row[y.PAYLOAD_LENGTH]), begin, out[:, i])
        for k in range(4):
            out[SRC_HIGH + k, i] = row[_ENDS[k]]


@step
def _segment(data: Column, at: Any, cap: Any, begin: Any, out: Column) -> None:
    if not g.is_unitdata(data, at, cap):
        return
    bssgp = at + g.NS_HEADER
    frame, size = g.find_element(data, bssgp + 5 + g.QOS, cap, g.LLC_PDU)
    end = frame + size - g.FCS
    if frame < 0 or end > cap or end - frame < 7 or g.llc_format(u8(data, frame + 1)) != g.LLC_UI:
        return
    flags = u8(data, frame + 3)
    is_first = flags & g.FIRST != 0
    head = frame + 5 if is_first else frame + 4  # only the first one tells how the packet is coded
    out[TLLI] = be32(data, bssgp + 1)
    out[NSAPI] = flags & 15
    out[NPDU] = be16(data, head) & 0xFFF
    out[NUMBER] = u8(data, head) >> 4
    out[IS_FIRST], out[HAS_MORE] = is_first, flags & g.MORE != 0
    out[BEGIN], out[END] = head + 2 - begin, end - begin
