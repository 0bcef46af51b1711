"""Captures as blocks of indexed records, read in bounded memory; nothing in a file makes it raise."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from penstock.net import _index_pcap as pcap
from penstock.net import _index_state as s
from penstock.net.feeds import Feed

Kind = Literal["pcap", "pcapng"]
BUFFER_BYTES = 4 << 20
BLOCK_RECORDS = 1 << 17
END = np.iinfo(np.int64).max
HEAD_BYTES = 24
_MAGICS = {
    0xA1B2C3D4: (False, 16),
    0xA1B23C4D: (True, 16),
    0xA1B2CD34: (False, 24),
}  # nanoseconds, record header
_USUAL_INTERFACES = 64
_BEHIND_STOP = 64 << 10


@dataclass(frozen=True, slots=True)
class Header:
    """What the first bytes of a capture say. ``begin`` is where its first record lies."""

    kind: Kind
    is_big: bool = False
    is_nano: bool = False
    link_type: int = 0
    snap_bytes: int = 0
    version: tuple[int, int] = (1, 0)
    record_bytes: int = 16
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to go on: a record's place, and for pcapng where its section and last interface are described."""

    at: int
    section: int = 0
    last_interface: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """A stretch of a capture that could not be read, and why."""

    begin: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Block:
    """Records that lie together, in columns. ``data`` and the columns are good until the next block.

    ``places``: place in the file, place in ``data``, time in ns; ``lengths``: captured, on the wire;
    ``kinds``: interface, link type.
    """

    data: npt.NDArray[np.uint8]
    places: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint32]
    faults: tuple[Fault, ...]
    resume: Resume

    def __len__(self) -> int:
        return int(self.places.shape[1])


def read_header(head: bytes) -> Header | None:
    """What a file is, from its first 24 bytes; None if it is no capture."""
    if head[:4] == b"\x0a\x0d\x0d\x0a":
        return Header("pcapng")
    for order in "<>" if len(head) >= HEAD_BYTES else "":
        magic, major, minor, _, _, snap, link = struct.unpack(f"{order}IHHIIII", head[:HEAD_BYTES])
        if magic in _MAGICS:
            is_nano, record = _MAGICS[magic]
            # The upper half of the link type tells of checksums, which nobody needs here.
            version = (major, minor)
            return Header("pcap", order == ">", is_nano, link & 0xFFFF, snap, version, record, HEAD_BYTES)
    return None


class Walk:
    """Walks through a capture from one place to another.

    What is found depends on the file alone, never on where walks began or how the buffer was filled.
    ``blocks_of_kind`` counts what a pcapng file holds.
    """

    def __init__(self, header: Header, feed: Feed, *, base: int, held: bytes = b"") -> None:
        """``base`` is where in the file the feed begins, or the bytes ``held`` that were read from it."""
        self.header = header
        self.interfaces = np.zeros((_USUAL_INTERFACES, s.INTERFACE_COLUMNS), np.int64)
        self.blocks_of_kind = np.zeros(len(s.BLOCK_KINDS), np.int64)
        self._feed = feed
        self._data = np.zeros(BUFFER_BYTES, np.uint8)
        self._data[: len(held)] = np.frombuffer(held, np.uint8)
        self._filled, self._base, self._is_last = len(held), base, False
        self._form = _form(header)
        self._state = np.zeros(s.STATE, np.int64)
        self._state[[s.LAST_S, s.DAMAGE]] = -1
        self._state[s.IS_BIG] = header.is_big
        self._state[s.AT] = header.begin if held else 0
        self._places = np.empty((3, BLOCK_RECORDS), np.int64)
        self._lengths = np.empty((2, BLOCK_RECORDS), np.uint32)
        self._kinds = np.empty((2, BLOCK_RECORDS), np.uint32)
        self._faults = np.empty((s.MOST_FAULTS, s.FAULT_COLUMNS), np.int64)

    def knows(self, other: Walk) -> None:
        """Take over the section and the interfaces that another walk has seen."""
        self.interfaces = other.interfaces.copy()
        taken = [s.IS_BIG, s.SECTION, s.LAST_INTERFACE, s.INTERFACES]
        self._state[taken] = other._state[taken]

    @property
    def interface_count(self) -> int:
        """How many interfaces the present section has described so far."""
        return int(self._state[s.INTERFACES])

    def blocks(self, stop: int = END, *, until: int = END, most: int = END) -> Iterator[Block]:
        """The records that begin before ``stop`` and end by ``until``, at most ``most``.

        The damage that lies before the next good record belongs to them.
        """
        taken = 0
        while True:
            room = min(BLOCK_RECORDS, most - taken)
            answer = self._index(stop, until, room)
            n, faults = int(self._state[s.ROWS]), int(self._state[s.FAULTS])
            taken += n
            if n or faults:
                yield self._block(n)
            if answer == s.DONE or (answer == s.FULL and (taken >= most or (n < room and not faults))):
                return
            if answer == s.GROW:
                self.interfaces = np.concatenate([self.interfaces, np.zeros_like(self.interfaces)])
            elif answer == s.MORE:
                self._fill(stop)

    @property
    def resume(self) -> Resume:
        """Where the walk stands."""
        at = self._base + int(self._state[s.AT])
        return Resume(at, int(self._state[s.SECTION]), int(self._state[s.LAST_INTERFACE]))

    def _index(self, stop: int, until: int, most: int) -> int:
        from penstock.net._index_pcapng import index_pcapng

        span = (self._data, self._filled, self._base, self._is_last, stop, until, most)
        out = (self._state, self._places, self._lengths, self._kinds, self._faults)
        if self.header.kind == "pcap":
            return int(pcap.index_pcap(*span, self._form, *out))
        return int(index_pcapng(*span, self.interfaces, self.blocks_of_kind, *out))

    def _block(self, n: int) -> Block:
        rows = self._faults[: int(self._state[s.FAULTS])].tolist()
        faults = tuple(Fault(begin, end, s.REASONS[reason]) for begin, end, reason in rows)
        return Block(
            self._data, self._places[:, :n], self._lengths[:, :n], self._kinds[:, :n], faults, self.resume
        )

    def _fill(self, stop: int) -> None:
        """Move what is not yet read to the front and fill the buffer behind it; it grows when it must.

        A little behind ``stop`` is enough at first, so that a small part of a file costs little.
        """
        at = int(self._state[s.AT])
        rest = self._filled - at
        if rest > len(self._data) // 2:
            self._data = np.concatenate(
                [self._data[at : self._filled], np.zeros(2 * len(self._data) - rest, np.uint8)]
            )
        else:
            self._data[:rest] = self._data[at : self._filled].copy()
        self._base, self._filled = self._base + at, rest
        self._state[s.AT] = 0
        wanted = min(len(self._data), max(stop - self._base, 0) + _BEHIND_STOP)
        if wanted <= self._filled:
            wanted = len(self._data)
        while self._filled < wanted:
            count = self._feed.readinto(self._data.data[self._filled : wanted])
            if not count:
                self._is_last = True
                return
            self._filled += count


def _form(header: Header) -> npt.NDArray[np.int64]:
    most = min(max(header.snap_bytes, s.MAX_RECORD), s.MAX_BLOCK)
    swapped = 0 if header.version >= (2, 4) or header.version[0] != 2 else 2 if header.version[1] == 3 else 1
    if header.version < (2, 0):
        swapped = 0
    return np.array([header.is_nano, header.link_type, most, header.record_bytes, swapped], np.int64)
