"""The log of one slice's state: a base and the deltas since, in a few large values.

An epoch writes what it changed. Every save has a stamp that is a hash of the stamp before and of
what was written, so equal stamps mean equal histories: state that a worker still has in memory is
used only if its stamp is the log's, and catches up from the deltas if its stamp is in the log's past.

This core does no input or output of its own: a Shelf keeps the values.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

CHUNK_BYTES = 16 << 20
"""Values larger than this are cut, so that no single value strains the store."""
DELTAS_AT_MOST = 200
"""Restoring reads less than twice this many deltas per slice."""
GENESIS = 0
_STAMP = struct.Struct("<Q")
_HEAD = struct.Struct("<BQqiBqqqqqq")
_SEAL_BYTES = 8
_FORMAT = 2
_UNSEALED = 1
"""The format before: a head without a seal."""


class BrokenLog(LookupError):
    """The values do not continue one another: they are damaged, or of another history."""


class Shelf(Protocol):
    """Where a slice's log is kept: numbered values and one head."""

    def head(self) -> bytes | None: ...
    def put_head(self, head: bytes) -> None: ...
    def drop_head(self) -> None: ...
    def get(self, number: int) -> bytes | None: ...
    def put(self, number: int, value: bytes) -> None: ...
    def drop(self, number: int) -> None: ...

    def distrust(self) -> bool:
        """Read from the store itself from now on; False if that is what was read already."""


@dataclass(frozen=True, slots=True)
class Head:
    """What the log holds, small enough to read and write in every epoch."""

    stamp: int
    born: int
    """The version of the topology in which this state began; another one's state is not ours."""
    layout: int
    """The operator's ``state_version``."""
    way: int
    """How the state was made into bytes (see ``engine.saving``)."""
    base: int
    """Number of the first value of the base; the deltas follow it."""
    base_values: int
    base_bytes: int
    deltas: int
    delta_bytes: int
    following: int
    """Number of the next value to write."""

    def pack(self) -> bytes:
        packed = _HEAD.pack(
            _FORMAT,
            self.stamp,
            self.born,
            self.layout,
            self.way,
            self.base,
            self.base_values,
            self.base_bytes,
            self.deltas,
            self.delta_bytes,
            self.following,
        )
        return packed + _seal(packed)

    @classmethod
    def unpack(cls, packed: bytes) -> Head:
        """Raises BrokenLog for a head that is damaged: another ``born`` alone would mean an empty state."""
        values, seal = packed[: _HEAD.size], packed[_HEAD.size :]
        expected = {_UNSEALED: b"", _FORMAT: _seal(values)}.get(packed[0] if packed else 0)
        if len(values) < _HEAD.size or seal != expected:
            raise BrokenLog(f"the head is damaged, or of a format that is not read here ({_FORMAT})")
        return cls(*_HEAD.unpack(values)[1:])

    @property
    def first_delta(self) -> int:
        return self.base + self.base_values


def _seal(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=_SEAL_BYTES).digest()


def empty_head(born: int, layout: int, way: int) -> Head:
    """The head of a log that holds nothing yet."""
    return Head(GENESIS, born, layout, way, 0, 0, 0, 0, 0, 0)


def next_stamp(stamp: int, written: bytes) -> int:
    """The stamp after writing something to a log with this stamp."""
    digest = hashlib.blake2b(written, digest_size=8, key=_STAMP.pack(stamp))
    return int.from_bytes(digest.digest(), "little")


def wants_base(head: Head, stagger: int) -> bool:
    """Whether the next save should write everything instead of a delta.

    Grows with the change: the deltas may weigh as much as the base. Slices that change alike are
    kept from compacting in the same epoch by their own ``stagger``.
    """
    if head.base_values == 0:
        return True
    share = 1 + (stagger % 16) / 16
    heavy = head.delta_bytes > max(head.base_bytes, 64 << 10) * share
    return heavy or head.deltas >= DELTAS_AT_MOST + stagger * 37 % DELTAS_AT_MOST


def write_base(shelf: Shelf, head: Head, base: bytes) -> Head:
    """Start the log anew with everything; what was before it is dropped."""
    body = _STAMP.pack(head.stamp) + base
    pieces = [body[i : i + CHUNK_BYTES] for i in range(0, len(body), CHUNK_BYTES)]
    for number, piece in enumerate(pieces, head.following):
        shelf.put(number, piece)
    for number in range(head.base, head.following):
        shelf.drop(number)
    following = head.following + len(pieces)
    return replace(
        head,
        stamp=next_stamp(head.stamp, base),
        base=head.following,
        base_values=len(pieces),
        base_bytes=len(base),
        deltas=0,
        delta_bytes=0,
        following=following,
    )


def write_delta(shelf: Shelf, head: Head, delta: bytes) -> Head:
    """Append what changed."""
    shelf.put(head.following, _STAMP.pack(head.stamp) + delta)
    return replace(
        head,
        stamp=next_stamp(head.stamp, delta),
        deltas=head.deltas + 1,
        delta_bytes=head.delta_bytes + len(delta),
        following=head.following + 1,
    )


def read_base(shelf: Shelf, head: Head) -> tuple[int, bytes]:
    """The stamp after the base, and the base. What follows must continue the stamp.

    Raises BrokenLog if nothing follows and it is not the head's.
    """
    pieces = [_require(shelf, number) for number in range(head.base, head.first_delta)]
    before, base = _opened(head.base, pieces[0] if len(pieces) == 1 else b"".join(pieces))
    stamp = next_stamp(before, base)
    if not head.deltas:
        _check_end(stamp, head)
    return stamp, base


def read_deltas(shelf: Shelf, head: Head, stamp: int, first: int) -> Iterator[bytes]:
    """The deltas from number ``first`` on, for state that has ``stamp``.

    Raises BrokenLog if the state is not in this log's past.
    """
    for number in range(first, head.following):
        before, delta = _opened(number, _require(shelf, number))
        if before != stamp:
            raise BrokenLog(f"value {number} does not continue stamp {stamp:016x}")
        stamp = next_stamp(stamp, delta)
        yield delta
    _check_end(stamp, head)


def _opened(number: int, body: bytes) -> tuple[int, bytes]:
    """The stamp that a value continues, and what was written."""
    if len(body) < _STAMP.size:
        raise BrokenLog(f"value {number} is cut off")
    return _STAMP.unpack_from(body)[0], body[_STAMP.size :]


def _check_end(stamp: int, head: Head) -> None:
    if stamp != head.stamp:
        raise BrokenLog(f"the log ends at stamp {stamp:016x}, its head says {head.stamp:016x}")


def _require(shelf: Shelf, number: int) -> bytes:
    value = shelf.get(number)
    if value is None:
        raise BrokenLog(f"value {number} is missing")
    return value
