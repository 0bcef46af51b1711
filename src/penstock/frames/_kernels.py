"""Numba kernels of hashing and routing; imported when first used.

Inputs are read-only arrays (see `readonly`), so that each kernel is compiled for one signature.
A validity mask of length 0 means that nothing is null.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, bounded, kernel, readonly, step

__all__ = [
    "bounds",
    "code",
    "destinations",
    "folded",
    "hash_bytes",
    "hash_one",
    "hash_words",
    "invert",
    "mix",
    "readonly",
    "scale",
    "scatter",
    "scatter_bytes",
]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NULL = np.uint64(0xD1B54A32D192ED03)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_U8, _U27, _U30, _U31, _U32 = np.uint64(8), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_U54 = np.uint64(54)
_ONE, _EIGHT = np.uint64(1), np.uint64(8)


@step
def mix(bits: Any) -> Any:
    """Spread 64 bits over 64 bits (the finaliser of splitmix64)."""
    bits = bits + GOLDEN
    bits = (bits ^ (bits >> _U30)) * _M1
    bits = (bits ^ (bits >> _U27)) * _M2
    return bits ^ (bits >> _U31)


@step
def folded(running: Any, word: Any) -> Any:
    """The running hash of a row with one more column."""
    return mix(running * _M2 + word)


@bounded(
    "len(words) == len(hashes)",
    "len(valid) in (0, len(words))",
)
@kernel
def hash_words(words: Column, valid: Column, hashes: Column) -> None:
    """Fold a column of 64-bit words into the running hashes."""
    if len(valid) == 0:
        for i in range(len(words)):
            hashes[i] = folded(hashes[i], words[i])
    else:
        for i in range(len(words)):
            word = words[i] if valid[i] else NULL
            hashes[i] = folded(hashes[i], word)


@bounded(
    "len(offsets) == len(hashes) + 1 and offsets[-1] <= len(data)",
    "len(valid) in (0, len(hashes))",
)
@kernel
def hash_bytes(offsets: Column, data: Column, valid: Column, hashes: Column) -> None:
    """Fold a column of byte strings (Arrow offsets and data) into the running hashes."""
    for i in range(len(offsets) - 1):
        if len(valid) > 0 and not valid[i]:
            word = NULL
        else:
            word = hash_one(data, np.uint64(offsets[i]), np.uint64(offsets[i + 1]))
        hashes[i] = folded(hashes[i], word)


@step
def hash_one(data: Column, start: Any, stop: Any) -> Any:
    """64 bits of one byte string, to be folded into a hash."""
    state = (stop - start) * GOLDEN
    at = start
    while at + _EIGHT <= stop:
        word = np.uint64(0)
        for j in range(8):  # the compiler makes one load of this
            word |= np.uint64(data[at + np.uint64(j)]) << np.uint64(8 * j)
        state = (state ^ word) * _M1
        state ^= state >> _U32
        at += _EIGHT
    tail = np.uint64(0)
    shift = np.uint64(0)
    while at < stop:
        tail |= np.uint64(data[at]) << shift
        shift += _U8
        at += _ONE
    state = (state ^ tail) * _M1
    return state ^ (state >> _U32)


@bounded("len(out) >= len(hashes)")
@kernel
def scale(hashes: Column, slices: Any, out: Column) -> None:
    """Map the high 32 bits of each hash to 0 … slices-1 by multiplication."""
    for i in range(len(hashes)):
        out[i] = np.int32(((hashes[i] >> _U32) * slices) >> _U32)


@bounded("len(starts) >= 1 and len(out) >= len(ids)")
@kernel
def destinations(ids: Column, starts: Column, out: Column) -> int:
    """Counting sort: where each row goes, and in starts[s]:starts[s+1] where slice s lies.

    Returns the number of ids out of range; nothing else is valid if there are any.
    """
    slices = len(starts) - 1
    wrong = 0
    for i in range(len(ids)):
        if ids[i] < 0 or ids[i] >= slices:
            wrong += 1
        else:
            starts[ids[i] + 1] += 1
    if wrong:
        return wrong
    for s in range(slices):
        starts[s + 1] += starts[s]
    place = starts[:-1].copy()
    for i in range(len(ids)):
        out[i] = place[ids[i]]
        place[ids[i]] += 1
    return 0


# `destinations` has refused ids that are no slices.
@bounded(
    "len(values) == len(ids) and len(valid) in (0, len(ids))",
    "out.shape == (2, len(seen))",
)
@kernel
def bounds(values: Column, valid: Column, ids: Column, out: Column, seen: Column) -> None:
    """The least and greatest value of each slice, where it has one."""
    for i in range(len(ids)):
        if len(valid) > 0 and not valid[i]:
            continue
        s, value = ids[i], values[i]
        if not seen[s]:
            seen[s] = 1
            out[0, s] = out[1, s] = value
        elif value < out[0, s]:
            out[0, s] = value
        elif value > out[1, s]:
            out[1, s] = value


# Places are a permutation: `destinations` gives each row its own.
@bounded("len(places) == len(values) == len(out)")
@kernel
def scatter(values: Column, places: Column, out: Column) -> None:
    """Put each value in its place."""
    for i in range(len(values)):
        out[places[i]] = values[i]


@bounded(
    "len(offsets) == len(ends) == len(places) + 1",
    "offsets[-1] - offsets[0] <= len(out) and offsets[-1] <= len(data)",
)
@kernel
def scatter_bytes(offsets: Column, data: Column, places: Column, ends: Column, out: Column) -> None:
    """Put each byte string in its place; `ends` become the offsets of the result."""
    for i in range(len(places)):
        ends[places[i] + 1] = offsets[i + 1] - offsets[i]
    for i in range(len(places)):
        ends[i + 1] += ends[i]
    for i in range(len(places)):
        # Unsigned places let the compiler move many bytes at once.
        begin, at = np.uint64(offsets[i]), np.uint64(ends[places[i]])
        for k in range(np.uint64(offsets[i + 1] - offsets[i])):
            out[at + k] = data[begin + k]


@bounded("len(out) >= len(places)")
@kernel
def invert(places: Column, out: Column) -> None:
    """The row that each place is filled from."""
    for i in range(len(places)):
        out[places[i]] = i


# A code is a byte, and a quarter of the 1024 slots at most is used: every search ends.
@bounded(
    "len(codes) >= len(values)",
    "len(words) <= 256",
)
@kernel
def code(values: Column, codes: Column, words: Column) -> int:
    """Number different values as they come: how many there are, or -1 if not all have room in ``words``."""
    slots = np.full(1024, -1, np.int64)
    count = 0
    for i in range(len(values)):
        value = values[i]
        slot = np.int64((value * GOLDEN) >> _U54)
        while slots[slot] >= 0 and words[slots[slot]] != value:
            slot = (slot + 1) & 1023
        if slots[slot] < 0:
            if count == len(words):
                return -1
            words[count] = value
            slots[slot] = count
            count += 1
        codes[i] = slots[slot]
    return count
