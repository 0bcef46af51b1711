"""Carry the log of a slice's state from one place to another, byte by byte.

The copy has the numbers, stamps and head of the original, so it works however the operator saves its state.
Each value has a digest; an end mark tells a whole copy from one that is cut off.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterator
from typing import IO

from penstock.engine.state_log import BrokenLog, Head, Shelf, read_base, read_deltas

_MAGIC = b"penstock-log-1\n"
_HEAD, _END = -1, -2
_RECORD = struct.Struct("<qQ16s")
_NUMBER = struct.Struct("<q")


def write_log(shelf: Shelf, file: IO[bytes]) -> None:
    """Write the log to a file; a slice without state gives a file that says so.

    Raises BrokenLog for a log that is damaged: its copy would only hide that.
    """
    file.write(_MAGIC)
    packed = shelf.head()
    if packed is not None:
        head = Head.unpack(packed)
        _check(shelf, head)
        _write(file, _HEAD, packed)
        for number in range(head.base, head.following):
            value = shelf.get(number)
            if value is None:
                raise BrokenLog(f"value {number} is missing")
            _write(file, number, value)
    _write(file, _END, b"")


def read_log(file: IO[bytes], shelf: Shelf) -> None:
    """Put a copied log on a shelf, in the place of what is there. Raises BrokenLog for a damaged copy."""
    clear_log(shelf)
    head = None
    for number, value in _records(file):
        if number == _HEAD:
            head = value
        else:
            shelf.put(number, value)
    if head is not None:  # last: a log without its head is an empty one
        shelf.put_head(head)


def clear_log(shelf: Shelf) -> None:
    """Free all that a shelf holds. A head that cannot be read is dropped alone."""
    packed = shelf.head()
    if packed is None:
        return
    try:
        head = Head.unpack(packed)
    except BrokenLog:
        head = None
    for number in range(head.base, head.following) if head else ():
        shelf.drop(number)
    shelf.drop_head()


def _check(shelf: Shelf, head: Head) -> None:
    if head.following > head.base:
        stamp, _ = read_base(shelf, head)
        for _ in read_deltas(shelf, head, stamp, head.first_delta):
            pass


def _write(file: IO[bytes], number: int, value: bytes) -> None:
    file.write(_RECORD.pack(number, len(value), _digest(number, value)))
    file.write(value)


def _records(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(len(_MAGIC)) != _MAGIC:
        raise BrokenLog("the copy does not begin as one")
    while True:
        packed = file.read(_RECORD.size)
        if len(packed) < _RECORD.size:
            raise BrokenLog("the copy is cut off")
        number, length, digest = _RECORD.unpack(packed)
        # A damaged length must not be asked of the file: reading would allocate that much.
        value = file.read(length) if length <= size else b""
        if len(value) < length or _digest(number, value) != digest:
            raise BrokenLog(f"value {number} of the copy is damaged")
        if number == _END:
            return
        yield number, value


def _digest(number: int, value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=16, key=_NUMBER.pack(number)).digest()
