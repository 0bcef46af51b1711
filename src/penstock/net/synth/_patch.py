"""Steps that write numbers and patches into packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, step
from penstock.net.synth._mixing import mix2
from penstock.net.synth.message import Fill

_ADD, _XOR, _MIXED = int(Fill.ADD), int(Fill.XOR), int(Fill.MIXED)
_DIGITS, _ADDRESS, _BCD = int(Fill.DIGITS), int(Fill.ADDRESS), int(Fill.BCD)
_ZERO, _TEN, _ONE = 48, np.uint64(10), np.uint64(1)


@step
def put16(out: Column, at: Any, value: Any) -> None:
    """Two bytes in network order."""
    a = np.uint64(at)
    out[a], out[a + _ONE] = value >> 8 & 255, value & 255


@step
def put32(out: Column, at: Any, value: Any) -> None:
    """Four bytes in network order."""
    put16(out, at, value >> 16)
    put16(out, at + 2, value)


@step
def put64(out: Column, at: Any, value: Any) -> None:
    """Eight bytes in network order."""
    put32(out, at, value >> 32)
    put32(out, at + 4, value)


@step
def put_le32(out: Column, at: Any, value: Any) -> None:
    """Four bytes, the least significant first."""
    for k in range(4):
        out[np.uint64(at + k)] = value >> 8 * k & 255


@step
def folded(total: Any) -> Any:
    """A sum of 16-bit words as the Internet checksum folds it, inverted."""
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@step
def word_sum(out: Column, at: Any, size: Any) -> Any:
    """The sum of 16-bit words; a last odd byte is filled up with 0."""
    # Unsigned places and 32 bits let the compiler add many bytes at once.
    a, high, low = np.uint64(at), np.uint32(0), np.uint32(0)
    for k in range(np.uint64(size // 2)):
        high += np.uint32(out[a + k + k])
        low += np.uint32(out[a + k + k + _ONE])
    if size & 1:
        high += np.uint32(out[at + size - 1])
    return (np.int64(high) << 8) + np.int64(low)


@step
def put_patch(out: Column, at: Any, inside: Any, fill: Any, width: Any, register: Any) -> None:
    """Write a register into a packet as the patch says; ``inside`` is its place in the message."""
    value = np.uint64(register)
    if fill in (_ADD, _XOR):
        old = np.uint64(0)
        for k in range(width):
            old = old << np.uint64(8) | np.uint64(out[at + k])
        new = old + value if fill == _ADD else old ^ value
        for k in range(width):
            out[at + k] = np.int64(new >> np.uint64(8 * (width - 1 - k)) & np.uint64(255))
    elif fill == _MIXED:
        bits = np.uint64(0)
        for k in range(width):
            if k % 8 == 0:
                bits = mix2(value, inside + k)
            out[at + k] = np.int64(bits >> np.uint64(8 * (k % 8)) & np.uint64(255))
    elif fill == _DIGITS:
        for k in range(width - 1, -1, -1):
            out[at + k] = _ZERO + np.int64(value % _TEN)
            value //= _TEN
    elif fill == _ADDRESS:
        _put_address(out, at, np.int64(value))
    elif fill == _BCD:
        _put_bcd(out, at, np.int64(out[at]), value)


@step
def _put_address(out: Column, at: Any, address: Any) -> None:
    for octet in range(4):
        value = address >> 8 * (3 - octet) & 255
        place = at + 4 * octet
        out[place], out[place + 1], out[place + 2] = (
            _ZERO + value // 100,
            _ZERO + value // 10 % 10,
            _ZERO + value % 10,
        )


@step
def _put_bcd(out: Column, at: Any, count: Any, value: Any) -> None:
    if count & 1:
        out[at + count // 2] = 0xF0
    for k in range(count - 1, -1, -1):
        digit = np.int64(value % _TEN)
        value //= _TEN
        place = at + k // 2
        if k & 1:
            out[place] = digit << 4
        else:
            out[place] = (np.int64(out[place]) & 0xF0) | digit
