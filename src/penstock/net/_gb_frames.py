"""The numba kernel that reads what Gb frames say of subscribers and cells, signalling included."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step
from penstock.net import _gb as g
from penstock.net import _layout as y
from penstock.net._bytes import be16, be32, u8
from penstock.net._decode import decode_one

# The rows of the output; -1 where a frame does not say it. Digits are numbers with a 1 before them.
(
    NS_TYPE, BVCI, BSSGP_TYPE, TLLI, PLMN, LAC, RAC, CELL, IMSI, SAPI, LLC_FORMAT, COMMAND, IS_CIPHERED,
    DISCRIMINATOR, MESSAGE,
) = range(15)  # fmt: skip
OUT = 15
_GB_PORT, _UDP = 23000, 17
_CELL_IE, _IMSI_IE, _RAI_IE, _TLLI_IE = 8, 13, 27, 31
_GMM, _IDENTITY_RESPONSE, _ATTACH_REQUEST = 8, 0x16, 1
_SIGNALLING, _FCS, _MOST_DIGITS = 1, 3, 15


@bounded(
    "len(ends) - 1 == len(lengths) == len(links) and ends[-1] <= len(data)",
    "out.shape == (OUT, len(lengths))",
)
@kernel
def frames(data: Column, ends: Column, lengths: Column, links: Column, out: Column) -> None:
    """One column of `out` per packet; all -1 for a packet that is not NS over UDP."""
    row = np.zeros(y.ROW, np.int64)
    for i in range(len(ends) - 1):
        row[:] = 0
        begin, captured = ends[i], ends[i + 1] - ends[i]
        decode_one(data, begin, captured, np.int64(lengths[i]), np.int64(links[i]), 0, row)
        is_whole = row[y.REASON] == y.OK and row[y.FRAGMENT_OFFSET] == 0
        if is_whole and row[y.PROTOCOL] == _UDP and _GB_PORT in (row[y.SRC_PORT], row[y.DST_PORT]):
            at = begin + row[y.PAYLOAD_OFFSET]
            _frame(data, at, min(ends[i + 1], at + row[y.PAYLOAD_LENGTH]), out[:, i])


@step
def _frame(data: Column, at: Any, cap: Any, out: Column) -> None:
    if cap <= at:
        return
    out[NS_TYPE] = u8(data, at)
    if out[NS_TYPE] != 0 or cap - at < 4:
        return
    out[BVCI] = be16(data, at + 2)
    if cap - at < 5:
        return
    at += 4
    out[BSSGP_TYPE] = u8(data, at)
    if out[BSSGP_TYPE] > g.UL_UNITDATA:
        _elements(data, at + 1, cap, out)
    elif cap - at >= 8:
        out[TLLI] = be32(data, at + 1)
        _elements(data, at + 8, cap, out)


@step
def _elements(data: Column, at: Any, cap: Any, out: Column) -> None:
    """The elements of BSSGP that tell of a subscriber or a cell; stops at one that is cut."""
    while at < cap:
        place, size = g.element(data, at, cap)
        if place < 0 or place + size > cap:
            return
        kind = u8(data, at)
        if kind == _CELL_IE and size >= 8:
            _area(data, place, out)
            out[CELL] = be16(data, place + 6)
        elif kind == _RAI_IE and size >= 6 and out[CELL] < 0:
            _area(data, place, out)
        elif kind == _TLLI_IE and size >= 4:
            out[TLLI] = be32(data, place)
        elif kind == _IMSI_IE:
            _identity(data, place, size, out)
        elif kind == g.LLC_PDU:
            _llc(data, place, place + size - _FCS, out)
        at = place + size


@step
def _area(data: Column, at: Any, out: Column) -> None:
    a, b, c = u8(data, at), u8(data, at + 1), u8(data, at + 2)
    mcc = (a & 15) * 100 + (a >> 4) * 10 + (b & 15)
    code = (1000 + mcc) * 100 + (c & 15) * 10 + (c >> 4)
    if b >> 4 != 15:
        code = code * 10 + (b >> 4)
    if max(a & 15, a >> 4, b & 15, c & 15, c >> 4) <= 9 and (b >> 4 <= 9 or b >> 4 == 15):
        out[PLMN] = code
    out[LAC] = be16(data, at + 3)
    out[RAC] = u8(data, at + 5)


@step
def _identity(data: Column, at: Any, size: Any, out: Column) -> None:
    """An IMSI in a mobile identity: digits in half bytes; an even number of them leaves the last half out."""
    if size < 1 or u8(data, at) & 7 != 1:
        return
    count = 2 * size - 1 if u8(data, at) & 8 else 2 * size - 2
    if count < 1 or count > _MOST_DIGITS:
        return
    code = np.int64(1)
    for k in range(1, count + 1):
        byte = u8(data, at + k // 2)
        digit = byte >> 4 if k & 1 else byte & 15
        if digit > 9:
            return
        code = code * 10 + digit
    out[IMSI] = code


@step
def _llc(data: Column, at: Any, end: Any, out: Column) -> None:
    if end - at < 2:
        return
    out[SAPI] = u8(data, at) & 15
    control = u8(data, at + 1)
    out[LLC_FORMAT] = g.llc_format(control)
    if out[LLC_FORMAT] == g.LLC_U:
        out[COMMAND] = control & 15
    if out[LLC_FORMAT] != g.LLC_UI or end - at < 3:
        return
    out[IS_CIPHERED] = u8(data, at + 2) >> 1 & 1
    if not out[IS_CIPHERED] and out[SAPI] == _SIGNALLING and end - at >= 5:
        _mobility(data, at + 3, end, out)


@step
def _mobility(data: Column, at: Any, end: Any, out: Column) -> None:
    """A message of mobility or session management, and the IMSI if a subscriber tells it."""
    out[DISCRIMINATOR], out[MESSAGE] = u8(data, at) & 15, u8(data, at + 1)
    if out[DISCRIMINATOR] != _GMM:
        return
    at += 2
    if out[MESSAGE] == _ATTACH_REQUEST and at < end:
        at += 1 + u8(data, at) + 1 + 2  # network capability, attach type, DRX parameter
    elif out[MESSAGE] != _IDENTITY_RESPONSE:
        return
    if at < end and at + 1 + u8(data, at) <= end:
        _identity(data, at + 1, u8(data, at), out)
