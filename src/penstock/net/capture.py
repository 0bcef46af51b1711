"""Captures as blocks of indexed records, read in bounded memory; nothing in a file makes it raise."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock.frames._jit import Column, readonly, within
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
BEHIND_STOP = 64 << 10
MOST_PACKED_DAMAGE = 256 << 20
"""In a compressed file, longer damage ends the capture: a few bytes may expand to any length."""
ODD_RECORDS = 1024  # after something odd, so many records are indexed before the short way is tried again


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
    base: int = 0
    """Where in the file ``data`` begins."""

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
    ``blocks_of_kind`` counts what a pcapng file holds, ``last_fault`` is the last damage found. A walk
    through a file that is still being written (``is_open``) ends before a last record that is not whole;
    then ``is_at_end`` says so.
    """

    def __init__(
        self,
        header: Header,
        feed: Feed,
        *,
        base: int,
        held: bytes = b"",
        is_open: bool = False,
        most_damage: int = END,
    ) -> None:
        """``base`` is where in the file the feed begins, or the bytes ``held`` that were read from it."""
        data = np.zeros(BUFFER_BYTES, np.uint8)
        data[: len(held)] = np.frombuffer(held, np.uint8)
        self._begin(header, data, len(held), base, header.begin if held else 0)
        self._feed: Feed | None = feed
        self._is_open = is_open
        self._most_damage = most_damage

    @classmethod
    def over(cls, header: Header, data: npt.NDArray[np.uint8], at: int, *, is_open: bool = False) -> Walk:
        """A walk through bytes that are all there, such as a file in memory; nothing is copied."""
        walk = cls.__new__(cls)
        walk._begin(header, data, len(data), 0, at)
        walk._feed, walk._is_open, walk._is_last = None, is_open, not is_open
        return walk

    def _begin(self, header: Header, data: npt.NDArray[np.uint8], filled: int, base: int, at: int) -> None:
        self.header = header
        self.interfaces = np.zeros((_USUAL_INTERFACES, s.INTERFACE_COLUMNS), np.int64)
        self.blocks_of_kind = np.zeros(len(s.BLOCK_KINDS), np.int64)
        self._data, self._filled, self._base, self._is_last = data, filled, base, False
        self._form = _form(header)
        self.state = np.zeros(s.STATE, np.int64)
        self.state[[s.LAST_S, s.DAMAGE]] = -1
        self.state[s.IS_BIG] = header.is_big
        self.state[s.AT] = at
        self._columns: tuple[npt.NDArray[Any], ...] | None = None
        self.last_fault: Fault | None = None
        self.is_at_end = False
        self.has_given_up = False
        """There was more damage than is searched; nothing behind it is read."""
        self._most_damage = END
        self._faults = np.empty((s.MOST_FAULTS, s.FAULT_COLUMNS), np.int64)

    def knows(self, other: Walk) -> None:
        """Take over the section and the interfaces that another walk has seen."""
        self.interfaces = other.interfaces.copy()
        taken = [s.IS_BIG, s.SECTION, s.LAST_INTERFACE, s.INTERFACES]
        self.state[taken] = other.state[taken]

    @property
    def interface_count(self) -> int:
        """How many interfaces the present section has described so far."""
        return int(self.state[s.INTERFACES])

    def blocks(self, stop: int = END, *, until: int = END, most: int = END) -> Iterator[Block]:
        """The records that begin before ``stop`` and end by ``until``, at most ``most``.

        The damage that lies before the next good record belongs to them.
        """
        taken = 0
        while True:
            room = min(BLOCK_RECORDS, most - taken)
            answer = self._index(stop, until, room)
            n, faults = int(self.state[s.ROWS]), int(self.state[s.FAULTS])
            taken += n
            if n or faults:
                yield self._block(n)
            if answer == s.DONE or (answer == s.FULL and (taken >= most or (n < room and not faults))):
                return
            if answer == s.GROW:
                self.interfaces = np.concatenate([self.interfaces, np.zeros_like(self.interfaces)])
            elif answer == s.MORE and not self._fill(stop):
                self.is_at_end = True
                return

    def skip(self, stop: int = END, *, most: int = END) -> int:
        """Go on as `blocks` does and make no columns; answers how many records were passed."""
        passed, found, is_pcap = 0, True, self.header.kind == "pcap"
        while found:
            if is_pcap:
                passed += pcap.skip_records(*self.span(stop), most - passed, self.state)
            found = False
            for block in self.blocks(stop, most=min(ODD_RECORDS if is_pcap else END, most - passed)):
                found = True
                passed += len(block)
        return passed

    def span(self, stop: int) -> tuple[Column, int, int, int, Column]:
        """What a kernel takes that goes over sound records by itself: the bytes, and where to end."""
        return readonly(self._data), self._filled, self._base, stop, self._form

    @property
    def is_done(self) -> bool:
        """Return whether everything has been walked through."""
        return bool(self._is_last and self.state[s.AT] == self._filled)

    @property
    def resume(self) -> Resume:
        """Where the walk stands: before a record, or before damage whose end is not yet known."""
        damage, at = int(self.state[s.DAMAGE]), self._base + int(self.state[s.AT])
        return Resume(
            at if damage < 0 else damage, int(self.state[s.SECTION]), int(self.state[s.LAST_INTERFACE])
        )

    def ends_with_records(self, data: bytes) -> bool:
        """Whether a stretch of this pcap file ends with what looks like whole records."""
        tail = readonly(np.frombuffer(data, np.uint8))
        return bool(pcap.ends_with_records(tail, self.header.is_big, self._form))

    def _index(self, stop: int, until: int, most: int) -> int:
        from penstock.net._index_pcapng import index_pcapng

        if self._columns is None:
            columns = (np.empty((3, BLOCK_RECORDS), np.int64), np.empty((2, BLOCK_RECORDS), np.uint32))
            self._columns = (*columns, np.empty((2, BLOCK_RECORDS), np.uint32))
        span = (readonly(self._data), self._filled, self._base, self._is_last, stop, until, most)
        out = (self.state, *self._columns, self._faults)
        if self.header.kind == "pcap":
            return int(pcap.index_pcap(*span, self._form, *out))
        return int(index_pcapng(*span, self.interfaces, self.blocks_of_kind, *out))

    def _block(self, n: int) -> Block:
        assert self._columns is not None
        within("damaged stretches of a capture", int(self.state[s.FAULTS]), len(self._faults))
        rows = self._faults[: int(self.state[s.FAULTS])].tolist()
        faults = tuple(Fault(begin, end, s.REASONS[reason]) for begin, end, reason in rows)
        self.last_fault = faults[-1] if faults else self.last_fault
        places, lengths, kinds = self._columns
        return Block(self._data, places[:, :n], lengths[:, :n], kinds[:, :n], faults, self.resume, self._base)

    def _fill(self, stop: int) -> bool:
        """Move what is not yet read to the front and fill the buffer behind it; it grows when it must.

        A little behind ``stop`` is enough at first, so that a small part of a file costs little. False where
        an open file ends for now.
        """
        if self._feed is None:
            return False
        at = int(self.state[s.AT])
        rest = self._filled - at
        if rest > len(self._data) // 2:
            self._data = np.concatenate(
                [self._data[at : self._filled], np.zeros(2 * len(self._data) - rest, np.uint8)]
            )
        else:
            self._data[:rest] = self._data[at : self._filled].copy()
        self._base, self._filled = self._base + at, rest
        self.state[s.AT] = 0
        wanted = min(len(self._data), max(stop - self._base, 0) + BEHIND_STOP)
        if wanted <= self._filled:
            wanted = len(self._data)
        wanted = min(wanted, self._most_filled)
        while self._filled < wanted:
            count = self._feed.readinto(self._data.data[self._filled : wanted])
            if not count:
                self._is_last = not self._is_open
                return self._is_last or self._filled > rest
            self._filled += count
        if self._filled >= self._most_filled:
            self._filled = self._most_filled
            self._is_last = self.has_given_up = True
        return True

    @property
    def _most_filled(self) -> int:
        """Return where in the buffer the capture ends if the damage that is going on reaches so far."""
        damage = int(self.state[s.DAMAGE])
        is_bounded = damage >= 0 and self._most_damage < END
        return damage + self._most_damage - self._base if is_bounded else END


def _form(header: Header) -> npt.NDArray[np.int64]:
    most = min(max(header.snap_bytes, s.MAX_RECORD), s.MAX_BLOCK)
    swapped = 0 if header.version >= (2, 4) or header.version[0] != 2 else 2 if header.version[1] == 3 else 1
    if header.version < (2, 0):
        swapped = 0
    return np.array([header.is_nano, header.link_type, most, header.record_bytes, swapped], np.int64)
