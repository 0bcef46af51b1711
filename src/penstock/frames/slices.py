"""Place keys in slices, and slices in Spark's partitions.

Spark puts a row into partition ``pmod(murmur3(address, 42), P)``. An address carries a salt that
makes this ``slice % P`` for every P that divides 120, so slices spread evenly and the address does
not depend on P.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

SPREAD = 120  # many divisors: 1 2 3 4 5 6 8 10 12 15 20 24 30 40 60 120
MAX_SLICES = 1 << 16
_SALTS = 1 << 16
_SEED = 42
_FIRST_BLOCK = 128
"""Most nodes have 120 slices."""


def slice_of(hashes: npt.NDArray[np.uint64], slices: int) -> npt.NDArray[np.int32]:
    """The slice of each hash: its high 32 bits scaled to the number of slices."""
    from penstock.frames import _kernels as kernels

    out = np.empty(len(hashes), np.int32)
    kernels.scale(kernels.readonly(hashes), np.uint64(slices), out)
    return out


def address(node: str, slice: int) -> int:
    """Return the 63-bit grouping key of a slice: node hash (31) | slice (16) | salt (16).

    Slices are asked for one by one and mostly all of them, so they are computed in blocks that double: all
    addresses of a node cost about one computation of all.
    """
    if not 0 <= slice < MAX_SLICES:
        raise ValueError(f"slices are 0 … {MAX_SLICES - 1}: got {slice}")
    first = 1 << (slice.bit_length() - 1) if slice >= _FIRST_BLOCK else 0
    return int(_block(node, first, max(2 * first, _FIRST_BLOCK))[slice - first])


@lru_cache(maxsize=4096)
def addresses(node: str, slices: int) -> npt.NDArray[np.int64]:
    """The addresses of slices 0 … slices-1 of a node; read-only because it is shared."""
    found = _salted(node, 0, slices)
    found.flags.writeable = False
    return found


@lru_cache(maxsize=8192)
def _block(node: str, first: int, last: int) -> npt.NDArray[np.int64]:
    return _salted(node, first, last)


def partition_of(address: int, partitions: int) -> int:
    """The partition Spark's HashPartitioning gives a row with this address."""
    return int(murmur3_long(np.array([address], np.int64))[0]) % partitions


def murmur3_long(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Spark's hash of a long: Murmur3_x86_32.hashLong with seed 42."""
    bits = values.view(np.uint64)
    state = _mix(np.full(values.shape, _SEED, np.uint32), bits.astype(np.uint32))
    state = _mix(state, (bits >> np.uint64(32)).astype(np.uint32))
    state ^= np.uint32(8)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state.view(np.int32)


def _mix(state: npt.NDArray[np.uint32], word: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    word = _rotate(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotate(word: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))


def _salted(node: str, first: int, last: int) -> npt.NDArray[np.int64]:
    """Addresses of slices first … last-1, each with the smallest salt that puts it in its place."""
    if not 0 <= first < last <= MAX_SLICES:
        raise ValueError(f"slices are 0 … {MAX_SLICES - 1}: got {first} … {last - 1}")
    numbers = np.arange(first, last, dtype=np.int64)
    plain = np.int64(_node_hash(node) << 32) | (numbers << np.int64(16))
    wanted = numbers % SPREAD
    found = np.zeros(len(numbers), np.int64)
    open_ = np.arange(len(numbers))
    block = 256  # one salt in 120 fits, so most slices are done after one or two blocks
    for salt in range(0, _SALTS, block):
        tried = plain[open_, None] | np.arange(salt, salt + block, dtype=np.int64)
        fits = murmur3_long(tried) % SPREAD == wanted[open_, None]
        done = fits.any(axis=1)
        found[open_[done]] = tried[done, fits[done].argmax(axis=1)]
        open_ = open_[~done]
        if not len(open_):
            return found
    raise AssertionError(f"no salt places slice {numbers[open_[0]]} of node '{node}'")


def _node_hash(node: str) -> int:
    digest = hashlib.blake2b(node.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") & 0x7FFFFFFF
