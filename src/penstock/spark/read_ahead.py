"""Rooms: memory that the workers of an executor share, for pieces of the next epoch that are read in advance.

Between two epochs Spark plans, commits and writes its logs, for which it needs one processor at a time.
Meanwhile a worker that has read its part of an epoch reads its part of the next, as far as that is foreseen,
with the least priority. Which worker is given that part then is Spark's choice; so what was read lies in
memory that the daemon opened before it forked them. It has no name, and goes with the last who has it.

Nothing relies on it: a piece that is not there, not whole or not the one asked for is read from its source.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

ROOM_BYTES = 64 << 20
"""For batches; memory is taken for what is used."""
_BATCHES_AT = 64 << 10
_USER = struct.Struct("<Q")
"""At the very beginning: who uses the room. Others put themselves there, and the one before gives way."""
_SEAL = struct.Struct("<II")
"""Then length and sum of the index, and the index: a process may die while it writes one."""
_INDEX_AT = _USER.size + _SEAL.size
_SLACK = 4 << 10
"""More than Arrow needs for the headers of a batch."""
_PATIENCE_S = 0.3
"""A batch is read in less, unless the user's code is slow."""
_LOOK_EVERY_S = 0.001
_LEAST_PRIORITY = 19

Index = dict[Hashable, tuple[int, int]]
"""Where each piece lies: its first byte, and how many."""
Batches = Iterable[pa.RecordBatch]
_rooms: list[Room] = []


def open_rooms() -> None:
    """Make a room for each task that can run here; for the daemon, before it forks its workers."""
    if hasattr(os, "memfd_create"):  # Linux
        _rooms[:] = [Room(os.memfd_create("penstock")) for _ in range(os.cpu_count() or 1)]


def room_of(number: int) -> Room | None:
    """The room for the part of an epoch with this number; not all have one."""
    return _rooms[number] if number < len(_rooms) else None


class Room:
    """Shared memory for one reader at a time."""

    def __init__(self, file: int) -> None:
        os.ftruncate(file, _BATCHES_AT + ROOM_BYTES)
        self._file = file
        self._memory = mmap.mmap(file, _BATCHES_AT + ROOM_BYTES)

    @contextmanager
    def entered(self) -> Iterator[Visit]:
        """Use what was read in advance. Whoever is still at it gives way, and is waited for a while."""
        user = secrets.randbits(64)  # forked workers would draw the same from `random`
        _USER.pack_into(self._memory, 0, user)
        with self._locked(_PATIENCE_S) as is_free:
            yield Visit(self, user, self._index() if is_free else {})

    def found(self, place: tuple[int, int]) -> Batches:
        """The batches at a place that the index told."""
        first, length = place
        found: Batches = pa.ipc.open_stream(pa.py_buffer(self._memory)[first : first + length])
        return found

    def fill(self, user: int, pieces: Sequence[Hashable], read: Callable[[Any], Batches]) -> None:
        """Read pieces, in order, until the room is full or somebody else wants it."""
        with self._locked(0) as is_free:
            if not is_free:
                return
            index: Index = {}
            end = _BATCHES_AT
            self._put_index(index)  # before anything is overwritten that the last one names
            for piece in pieces:
                length = self._written(end, user, read(piece))
                if length is None:
                    return
                index[piece] = (end, length)
                end += length
                if not self._put_index(index):
                    return

    def _written(self, first: int, user: int, batches: Batches) -> int | None:
        """Write a piece; its length, or None if it has no place or somebody else wants the room."""
        room = pa.py_buffer(memoryview(self._memory)[first:])
        place, writer = pa.FixedSizeBufferWriter(room), None
        for batch in batches:
            if self._user() != user or place.tell() + batch.get_total_buffer_size() + _SLACK > room.size:
                return None
            writer = writer or pa.ipc.new_stream(place, batch.schema)
            writer.write_batch(batch)
        if writer is None:
            return None
        writer.close()
        return int(place.tell())

    def _user(self) -> int:
        return int(_USER.unpack_from(self._memory)[0])

    def _put_index(self, index: Index) -> bool:
        """Whether there was place for it; if not, the one before stands."""
        packed = pickle.dumps(index)
        if _INDEX_AT + len(packed) > _BATCHES_AT:
            return False
        self._memory[_INDEX_AT : _INDEX_AT + len(packed)] = packed
        _SEAL.pack_into(self._memory, _USER.size, len(packed), zlib.crc32(packed))
        return True

    def _index(self) -> Index:
        length, crc = _SEAL.unpack_from(self._memory, _USER.size)
        packed = self._memory[_INDEX_AT : _INDEX_AT + length]
        index: Index = pickle.loads(packed) if length and zlib.crc32(packed) == crc else {}
        return index

    @contextmanager
    def _locked(self, patience_s: float) -> Iterator[bool]:
        """Whether the room is free, which it then is for nobody else."""
        deadline = time.monotonic() + patience_s
        # Opened anew: the descriptor that all have inherited is one to the lock.
        with open(f"/proc/self/fd/{self._file}", "rb") as file:
            while not (is_free := _try_lock(file.fileno())) and time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
            yield is_free


class Visit:
    """A task in its room."""

    def __init__(self, room: Room, user: int, index: Index) -> None:
        self._room = room
        self._user = user
        self._index = index

    def batches(self, piece: Hashable) -> Batches | None:
        """A piece, if it was read in advance."""
        place = self._index.get(piece)
        return None if place is None else self._room.found(place)

    def read_next(self, pieces: Sequence[Hashable], read: Callable[[Any], Batches]) -> None:
        """Once the room is left: read pieces in advance, beside whatever this worker is given to do."""
        arguments = (pieces, read)
        threading.Thread(target=self._read, args=arguments, name="read-ahead", daemon=True).start()

    def _read(self, pieces: Sequence[Hashable], read: Callable[[Any], Batches]) -> None:
        with suppress(OSError):  # Linux knows priorities of threads
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LEAST_PRIORITY)
        with suppress(Exception):  # whatever is wrong with the input, its own epoch will tell
            self._room.fill(self._user, pieces, read)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
