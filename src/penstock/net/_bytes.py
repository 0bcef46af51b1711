"""Numba steps that read numbers out of raw bytes. Unsigned places let the compiler load each at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.frames._jit import Column, step

_B1, _B2, _B3 = np.uint64(1), np.uint64(2), np.uint64(3)


@step
def u8(data: Column, at: Any) -> Any:
    """One byte."""
    return np.int64(data[np.uint64(at)])


@step
def be16(data: Column, at: Any) -> Any:
    """Two bytes in network order."""
    a = np.uint64(at)
    return np.int64(data[a]) << 8 | np.int64(data[a + _B1])


@step
def be32(data: Column, at: Any) -> Any:
    """Four bytes in network order."""
    a = np.uint64(at)
    return (
        np.int64(data[a]) << 24
        | np.int64(data[a + _B1]) << 16
        | np.int64(data[a + _B2]) << 8
        | np.int64(data[a + _B3])
    )


@step
def be64(data: Column, at: Any) -> Any:
    """Eight bytes in network order, unsigned."""
    return np.uint64(be32(data, at)) << np.uint64(32) | np.uint64(be32(data, at + 4))


@step
def le32(data: Column, at: Any) -> Any:
    """Four bytes, the least significant first."""
    a = np.uint64(at)
    return (
        np.int64(data[a])
        | np.int64(data[a + _B1]) << 8
        | np.int64(data[a + _B2]) << 16
        | np.int64(data[a + _B3]) << 24
    )


@step
def in16(data: Column, at: Any, big: Any) -> Any:
    """Two bytes in the order of a file."""
    a = np.uint64(at)
    if big:
        return np.int64(data[a]) << 8 | np.int64(data[a + _B1])
    return np.int64(data[a + _B1]) << 8 | np.int64(data[a])


@step
def in32(data: Column, at: Any, big: Any) -> Any:
    """Four bytes in the order of a file."""
    return be32(data, at) if big else le32(data, at)
