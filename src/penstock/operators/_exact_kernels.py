"""Numba kernels that add floats without rounding, so that their order cannot show.

A sum is held as a whole number of the smallest float, in limbs of 32 bits. Its packed form is a header and
the limbs that are not zero: header = lowest limb << 8 | number of limbs; the last limb has the sign. Headers
below 0 stand for what is no number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, step

LIMBS = 72
"""Room for 2**30 of the greatest floats."""
MOST = LIMBS + 1
"""Words of a packed sum at most."""
NAN, INFINITE, MINUS_INFINITE = -1, -2, -3
_UNIT = 1074
"""The smallest float is 2**-1074."""
_UNIT_LIMBS, _UNIT_BITS = divmod(_UNIT, 32)
_MASK = np.int64(0xFFFFFFFF)
_MANTISSA = np.int64((1 << 52) - 1)
_UNIT_SHIFT, _WORD_HALF, _WORD_MASK = np.uint64(_UNIT_BITS), np.uint64(32), np.uint64(0xFFFFFFFF)
_LEAD = np.int64(1 << 52)
_SPLIT = 134_217_729.0  # 2**27 + 1: cuts a float into halves whose products are exact


@step
def put(acc: Any, bits: Any) -> Any:
    """Add the float with these bits; gives 0, or the header of what is no number."""
    exponent = (bits >> 52) & np.int64(0x7FF)
    mantissa = bits & _MANTISSA
    if exponent == 0x7FF:
        if mantissa != 0:
            return NAN
        return INFINITE if bits > 0 else MINUS_INFINITE
    if exponent > 0:
        mantissa |= _LEAD
        exponent -= 1
    limb, shift = exponent >> 5, exponent & 31
    low, high = (mantissa & _MASK) << shift, (mantissa >> 32) << shift
    if bits < 0:
        acc[limb] -= low & _MASK
        acc[limb + 1] -= (low >> 32) + (high & _MASK)
        acc[limb + 2] -= high >> 32
    else:
        acc[limb] += low & _MASK
        acc[limb + 1] += (low >> 32) + (high & _MASK)
        acc[limb + 2] += high >> 32
    return 0


@step
def both(known: Any, new: Any) -> Any:
    """What is no number, of two that may be."""
    if known == 0 or known == new:
        return new
    return known if new == 0 else NAN


@step
def pack(acc: Any, odd: Any, out: Any, at: Any) -> Any:
    """Write the sum and clear it; gives where the next one goes."""
    low, high, carry = -1, -1, np.int64(0)
    for i in range(LIMBS):
        value = acc[i] + carry
        acc[i] = value & _MASK
        carry = value >> 32
        if acc[i] != 0:
            high = i
            if low < 0:
                low = i
    if odd != 0 or low < 0:
        acc[:] = 0
        out[at] = odd
        return at + 1
    if carry < 0:  # the sign went all the way up: bring it back to the last limb that says something
        high = LIMBS - 1
        while high > low and acc[high] == _MASK:
            high -= 1
        acc[high] -= _MASK + 1
    out[at] = (low << 8) | (high - low + 1)
    for i in range(low, high + 1):
        out[at + 1 + i - low] = acc[i]
    acc[:] = 0
    return at + 2 + high - low


@step
def unpack(acc: Any, words: Any, at: Any) -> Any:
    """Add a packed sum; gives where the next one begins."""
    low, count = words[at] >> 8, words[at] & 255
    for i in range(count):
        acc[low + i] += words[at + 1 + i]
    return at + 1 + count


@step
def put_square(acc: Any, x: Any) -> Any:
    """Add the square of a float: its rounded value, and what rounding took from it (Dekker)."""
    square = x * x
    odd = put(acc, np.float64(square).view(np.int64))
    if odd == 0:
        cut = _SPLIT * x
        high = cut - (cut - x)
        rest = ((high * high - square) + 2.0 * high * (x - high)) + (x - high) * (x - high)
        odd = put(acc, np.float64(rest).view(np.int64))
    return odd


# A packed sum has MOST words at most; each loop ends before a group that has no room for them.
@bounded("start < len(offsets) == len(ends) and offsets[-1] <= len(values)")
@kernel
def sum_floats(values: Column, offsets: Column, start: int, out: Column, ends: Column) -> int:
    """Sum the values of each group from ``start`` on, as far as there is room."""
    acc, at = np.zeros(LIMBS, np.int64), ends[start]
    for group in range(start, len(offsets) - 1):
        if at + MOST > len(out):
            return group
        odd = 0
        for i in range(offsets[group], offsets[group + 1]):
            odd = both(odd, put(acc, np.float64(values[i]).view(np.int64)))
        at = pack(acc, odd, out, at)
        ends[group + 1] = at
    return len(offsets) - 1


@bounded("start < len(offsets) == len(ends) and offsets[-1] <= len(values)")
@kernel
def sum_squares(values: Column, offsets: Column, start: int, out: Column, ends: Column) -> int:
    """Sum the squares of each group from ``start`` on, as far as there is room."""
    acc, at = np.zeros(LIMBS, np.int64), ends[start]
    for group in range(start, len(offsets) - 1):
        if at + MOST > len(out):
            return group
        odd = 0
        for i in range(offsets[group], offsets[group + 1]):
            odd = both(odd, put_square(acc, values[i]))
        at = pack(acc, odd, out, at)
        ends[group + 1] = at
    return len(offsets) - 1


@step
def put_word(acc: Any, word: Any, limb: Any, sign: Any) -> Any:
    """Add or take away 64 bits, the lowest of which counts 2**(32 * limb)."""
    low, high = (word & _WORD_MASK) << _UNIT_SHIFT, (word >> _WORD_HALF) << _UNIT_SHIFT
    at = _UNIT_LIMBS + limb
    acc[at] += sign * np.int64(low & _WORD_MASK)
    acc[at + 1] += sign * np.int64((low >> _WORD_HALF) + (high & _WORD_MASK))
    acc[at + 2] += sign * np.int64(high >> _WORD_HALF)
    return 0


@step
def magnitude(value: Any) -> Any:
    """Return the size of an integer of 64 bits, also of the least one, which has no positive counterpart."""
    return np.uint64(0) - np.uint64(value) if value < 0 else np.uint64(value)


@bounded("start < len(offsets) == len(ends) and offsets[-1] <= len(values)")
@kernel
def sum_integers(values: Column, offsets: Column, start: int, out: Column, ends: Column) -> int:
    """Sum the integers of each group from ``start`` on, as far as there is room."""
    acc, at = np.zeros(LIMBS, np.int64), ends[start]
    for group in range(start, len(offsets) - 1):
        if at + MOST > len(out):
            return group
        for i in range(offsets[group], offsets[group + 1]):
            put_word(acc, magnitude(values[i]), 0, -1 if values[i] < 0 else 1)
        at = pack(acc, 0, out, at)
        ends[group + 1] = at
    return len(offsets) - 1


@bounded("start < len(offsets) == len(ends) and offsets[-1] <= len(values)")
@kernel
def sum_integer_squares(values: Column, offsets: Column, start: int, out: Column, ends: Column) -> int:
    """Sum the squares of the integers of each group from ``start`` on, as far as there is room."""
    acc, at = np.zeros(LIMBS, np.int64), ends[start]
    for group in range(start, len(offsets) - 1):
        if at + MOST > len(out):
            return group
        for i in range(offsets[group], offsets[group + 1]):
            size = magnitude(values[i])
            low, high = size & _WORD_MASK, size >> _WORD_HALF
            put_word(acc, low * low, 0, 1)
            put_word(acc, low * high, 1, 1)
            put_word(acc, low * high, 1, 1)
            put_word(acc, high * high, 2, 1)
        at = pack(acc, 0, out, at)
        ends[group + 1] = at
    return len(offsets) - 1


@bounded("start < len(offsets) == len(ends) and offsets[-1] <= len(words)")
@kernel
def sum_packed(words: Column, offsets: Column, start: int, out: Column, ends: Column) -> int:
    """Sum the packed sums of each group from ``start`` on, as far as there is room."""
    acc, at = np.zeros(LIMBS, np.int64), ends[start]
    for group in range(start, len(offsets) - 1):
        if at + MOST > len(out):
            return group
        odd, i = 0, offsets[group]
        while i < offsets[group + 1]:
            if words[i] < 0:
                odd = both(odd, words[i])
                i += 1
            else:
                i = unpack(acc, words, i)
        at = pack(acc, odd, out, at)
        ends[group + 1] = at
    return len(offsets) - 1


@step
def settle(acc: Any) -> Any:
    """Bring all limbs to 32 bits and the sum to a positive one; gives its sign."""
    carry = np.int64(0)
    for i in range(len(acc)):
        value = acc[i] + carry
        acc[i] = value & _MASK
        carry = value >> 32
    if carry >= 0:
        return 1.0
    carry = np.int64(1)
    for i in range(len(acc)):
        value = (acc[i] ^ _MASK) + carry
        acc[i] = value & _MASK
        carry = value >> 32
    return -1.0


@step
def rounded(acc: Any, below: Any) -> Any:
    """The float that is nearest to the sum, whose limbs have any size; its unit is 2**-below."""
    sign, top = settle(acc), len(acc) - 1
    while top > 0 and acc[top] == 0:
        top -= 1
    first = acc[top]
    second = acc[top - 1] if top > 0 else np.int64(0)
    third = acc[top - 2] if top > 1 else np.int64(0)
    lead = 0
    while lead < 32 and first >> lead != 0:
        lead += 1
    # 64 bits from the leading one on; a last bit that tells whether anything follows makes rounding right.
    word = (np.uint64(first) << np.uint64(64 - lead)) if lead > 0 else np.uint64(0)
    word |= np.uint64(second) << np.uint64(32 - lead)
    word |= np.uint64(third) >> np.uint64(lead)
    more = third & ((np.int64(1) << lead) - 1)
    for i in range(top - 2):
        more |= acc[i]
    if more != 0:
        word |= np.uint64(1)
    return sign * math.ldexp(np.float64(word), 32 * top + lead - 64 - below)


@step
def odd_value(header: Any) -> Any:
    if header == INFINITE:
        return np.inf
    return -np.inf if header == MINUS_INFINITE else np.nan


@bounded("len(offsets) == len(out) + 1 and offsets[-1] <= len(words)")
@kernel
def round_packed(words: Column, offsets: Column, out: Column) -> None:
    """The float nearest to each sum."""
    acc = np.zeros(LIMBS, np.int64)
    for group in range(len(offsets) - 1):
        if offsets[group] == offsets[group + 1]:  # Polars tries out what it gets for a null
            out[group] = 0.0
        elif words[offsets[group]] < 0:
            out[group] = odd_value(words[offsets[group]])
        else:
            acc[:] = 0
            unpack(acc, words, offsets[group])
            out[group] = rounded(acc, _UNIT)


@bounded(
    "len(sum_offsets) == len(square_offsets) == len(counts) + 1 and len(out) == len(counts)",
    "sum_offsets[-1] <= len(sums) and square_offsets[-1] <= len(squares)",
)
@kernel
def apart(
    sums: Column, sum_offsets: Column, squares: Column, square_offsets: Column, counts: Column, out: Column
) -> None:
    """The float nearest to n Σx² − (Σx)² of each group: most digits of the two cancel out."""
    s, q = np.zeros(LIMBS, np.int64), np.zeros(LIMBS, np.int64)
    acc = np.zeros(2 * LIMBS + 4, np.int64)
    for group in range(len(counts)):
        at, also = sum_offsets[group], square_offsets[group]
        out[group] = np.nan
        if at == sum_offsets[group + 1] or also == square_offsets[group + 1]:
            continue
        if sums[at] < 0 or squares[also] < 0:
            continue
        s[:] = q[:] = acc[:] = 0
        unpack(s, sums, at)
        unpack(q, squares, also)
        settle(s)
        settle(q)
        for i in range(LIMBS):
            value = q[i] * counts[group]
            low, high = (value & _MASK) << _UNIT_BITS, (value >> 32) << _UNIT_BITS
            acc[i + _UNIT_LIMBS] += low & _MASK
            acc[i + _UNIT_LIMBS + 1] += (low >> 32) + (high & _MASK)
            acc[i + _UNIT_LIMBS + 2] += high >> 32
        for i in range(LIMBS):
            if s[i] != 0:
                for j in range(LIMBS):
                    product = np.uint64(s[i]) * np.uint64(s[j])
                    acc[i + j] -= np.int64(product & np.uint64(_MASK))
                    acc[i + j + 1] -= np.int64(product >> np.uint64(32))
        out[group] = rounded(acc, 2 * _UNIT)
