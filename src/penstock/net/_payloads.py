"""The payloads of packets: with the packets, or where they lie in a capture until somebody needs them.

Bytes that nobody looks at cost as much on the way through Spark as those that matter: with all payloads sent
along, the application tracker spent nine tenths of its time on carrying them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.errors import InternalError, SourceUnavailable
from penstock.frames._jit import Column, bounded, kernel, readonly
from penstock.frames.hashing import byte_buffers
from penstock.net._gather import copy
from penstock.net._prefetch import PACKETS_AHEAD, fetch_head
from penstock.net.columns import IN_FILE
from penstock.net.feeds import mapped

FILE, PLACE = "payload_file", "payload_place"
_WINDOW, _BEHIND = 64 << 20, 32 << 20
"""A capture is mapped in windows, each with so much behind it as a record can have."""
_WINDOWS = 12
"""So many stay mapped. With 64 the processes of the application tracker showed 13.5 GB together (RSS, epochs
of 2 GB), with 12 they show 8.7 GB; two epochs took 45.8 and 44.3 s (one run each)."""


def payload_columns(packets: pl.DataFrame) -> list[pl.Expr]:
    """The captured payload of each packet and its size; of those that lie in a file the place instead."""
    whole = pl.col("packet").bin.slice("payload_offset", "payload_length")
    captured = pl.col("packet").bin.size().cast(pl.Int64) - pl.col("payload_offset")
    size = pl.min_horizontal(captured.clip(0), "payload_length").cast(pl.UInt32).alias("payload_size")
    if IN_FILE[0] not in packets.columns:
        return [whole.alias("payload"), size]
    file = pl.col(IN_FILE[0])
    is_carried = packets[IN_FILE[0]].null_count() > 0
    payload = pl.when(file.is_null()).then(whole) if is_carried else pl.lit(None, pl.Binary)
    place = pl.col(IN_FILE[1]) + pl.col("payload_offset")
    return [payload.alias("payload"), size, file.alias(FILE), place.alias(PLACE)]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Payloads that lie in one stretch of bytes."""

    which: npt.NDArray[np.int64]
    """Which of the packets they are of."""
    begins: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]

    def copy_to(self, out: Column, places: Column, sizes: Column) -> None:
        """Copy so many bytes of each packet's payload to its place."""
        if len(self.which) and (self.begins + sizes[self.which]).max() > len(self.data):
            what = "packets say that their payloads are longer than the bytes that came with them"
            raise InternalError(what=what)
        _copy(readonly(self.which), readonly(self.begins), readonly(self.data), places, sizes, out)


def payloads_of(packets: pl.DataFrame) -> Iterator[Payloads]:
    """The payloads of packets, by where they lie. Raises SourceUnavailable for a capture that is gone."""
    if FILE not in packets.columns:
        ends, data = byte_buffers(packets["payload"])
        yield Payloads(np.arange(packets.height), ends[:-1], data)
        return
    window = pl.col(PLACE) // _WINDOW
    where = packets.select(FILE, PLACE, "payload_size", window=window).with_row_index("which")
    some = where.filter(pl.col("payload_size") > 0)  # of a packet cut in its headers the place is behind it
    for (path, number), part in some.group_by(FILE, "window", maintain_order=True):
        which = part["which"].to_numpy().astype(np.int64)
        if path is None:
            ends, data = byte_buffers(packets["payload"][which])
            yield Payloads(which, ends[:-1], data)
        else:
            begins = part[PLACE].to_numpy() - number * _WINDOW
            end = int((begins + part["payload_size"].to_numpy()).max())
            yield Payloads(which, begins, _captures.window(str(path), number, end))


class _Captures:
    """Windows into captures where the system holds them, from batch to batch."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], tuple[tuple[int, int], npt.NDArray[np.uint8]]] = (
            OrderedDict()
        )

    def window(self, path: str, number: int, end: int) -> npt.NDArray[np.uint8]:
        """One of the windows of a capture, up to the place ``end`` in it at least."""
        key = (path, number)
        try:
            now = Path(path).stat()
            room = now.st_size - number * _WINDOW
            held = self._held.pop(key, None)
            if held is None or held[0] != (now.st_dev, now.st_ino) or not end <= len(held[1]) <= room:
                held = (
                    (now.st_dev, now.st_ino),
                    mapped(path, now.st_size, number * _WINDOW, _WINDOW + _BEHIND),
                )
        except OSError as error:
            raise _gone(path, f"the capture cannot be read ({error})") from error
        if len(held[1]) < end:
            raise _gone(path, f"the capture was cut to {now.st_size:,} bytes while it was read")
        self._held[key] = held
        if len(self._held) > _WINDOWS:
            self._held.popitem(last=False)
        return held[1]


def _gone(path: str, what: str) -> SourceUnavailable:
    step = "put the file back and run again: the epoch is repeated"
    return SourceUnavailable(source="pcap", what=what, where=path, next_step=step)


_captures = _Captures()


@bounded("len(which) == len(begins) and len(places) == len(sizes)")
@kernel
def _copy(which: Column, begins: Column, data: Column, places: Column, sizes: Column, out: Column) -> None:
    for k in range(len(which)):
        fetch_head(data, begins[min(k + PACKETS_AHEAD, len(which) - 1)])
        i = which[k]
        copy(data, begins[k], out, places[i], sizes[i])
