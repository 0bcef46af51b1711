"""What an engine is given of a flow, and what it answers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Numbers = npt.NDArray[np.int64]


class Label(NamedTuple):
    """What a flow is. Applications are named as nDPI does: ``TLS.YouTube`` is YouTube inside of TLS."""

    application: str
    category: str
    confidence: str
    """``DPI``: seen in the payload; ``Match by port`` and the like: a guess; ``Unknown``: no idea."""


UNKNOWN = Label("Unknown", "Unspecified", "Unknown")


@dataclass(frozen=True, slots=True)
class FirstPackets:
    """The first packets of some flows, in order, in the form of `records`.

    The records of flow ``i`` are ``data[ends[i]:ends[i + 1]]``; replies are those that ``dst`` sent, which
    may be the first: who began is for the engine to see. ``is_last``: no more packets of it will be looked
    at, so that an engine should say the best it can.
    """

    data: npt.NDArray[np.uint8]
    ends: Numbers
    src_high: npt.NDArray[np.uint64]
    src_low: npt.NDArray[np.uint64]
    dst_high: npt.NDArray[np.uint64]
    dst_low: npt.NDArray[np.uint64]
    src_port: npt.NDArray[np.uint16]
    dst_port: npt.NDArray[np.uint16]
    protocol: npt.NDArray[np.uint8]
    is_last: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def ends_of_flows(self) -> tuple[npt.NDArray[Any], ...]:
        """Addresses, ports and protocol, as the kernels take them."""
        names = ("src_high", "src_low", "dst_high", "dst_low", "src_port", "dst_port", "protocol")
        return tuple(getattr(self, name) for name in names)


@dataclass(frozen=True, slots=True)
class Verdicts:
    """For each flow: decided or not; what it is (a place in ``labels``); the host, null if none was named."""

    is_decided: npt.NDArray[np.bool_]
    label: Numbers
    labels: tuple[Label, ...]
    hosts: pl.Series

    def of(self, flow: int) -> Label:
        """What one flow is."""
        return self.labels[int(self.label[flow])]


def texts(content: npt.NDArray[np.uint8], sizes: Numbers) -> pl.Series:
    """Strings that lie one behind the other; null where the size is 0. What is no UTF-8 is replaced.

    >>> texts(np.frombuffer(b"ab\\xffcd", np.uint8), np.array([2, 0, 3])).to_list()
    ['ab', None, '\ufffdcd']
    """
    ends = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    if content.size and content.max() >= 0x80:
        rows = [content[begin:end].tobytes() for begin, end in itertools.pairwise(ends.tolist())]
        return pl.Series([row.decode("utf-8", "replace") or None for row in rows], dtype=pl.String)
    is_named = np.packbits(sizes > 0, bitorder="little")
    buffers = [pa.py_buffer(part) for part in (is_named, ends, np.ascontiguousarray(content))]
    return pl.Series(pl.from_arrow(pa.Array.from_buffers(pa.string(), len(sizes), buffers)), dtype=pl.String)


class Engine(Protocol):
    """Says what flows are. The answer for a flow depends on its own first packets alone.

    So a flow that was moved or recovered gets the same verdict as one that stayed: its packets are
    kept until it is decided, and given to the engine again with each that comes.
    """

    @property
    def name(self) -> str:
        """Which engine this is, with its version."""

    def judge(self, flows: FirstPackets) -> Verdicts:
        """A verdict for each flow."""
