"""What the workers of a machine hold in their caches of states, told in memory that they share.

A worker that dies cannot say so: each holds a lock on its place in the file, which the system takes away
with the process. Reading the ledger costs a microsecond, so a worker looks whenever it keeps a state.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

WORKERS = 1024
"""Workers of a machine at most; more than these share nothing."""
_MARKS = 1 << 16
_SIZE = 8 * (2 * WORKERS + _MARKS)
_LOOK_FOR_DEAD_S = 1.0
_LOW = np.uint64(0xFFFFFFFF)
Key = tuple[str, str, int]


def machine_ledger() -> Path:
    """Return the path of this user's ledger on this machine."""
    shared = Path("/dev/shm")
    base = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
    return base / f"penstock-{os.getuid()}" / f"state-cache-{_SIZE}"


def machine_bytes() -> int:
    """Return the memory that processes may use here: a container may have less than the machine."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        text = _read(Path("/sys/fs/cgroup", name))
        if text.isdigit():
            found.append(int(text))
    return min(found)


class Ledger:
    """This worker's place among those of the machine; taken with the first use, as workers are forked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = 0
        self._place: int | None = None
        self._file = -1
        self._workers: npt.NDArray[np.uint64] = np.zeros((WORKERS, 2), np.uint64)
        """Bytes that each worker holds, and whether it has less than its share and needs more."""
        self._marks: npt.NDArray[np.uint64] = np.zeros(_MARKS, np.uint64)
        """Per slice, by hash: another part of its hash, and the last epoch in which a worker served it."""
        self._looked = 0.0

    def allowed(self, budget: int, used: int) -> int:
        """Return how much of the budget this worker may hold, of which it now uses so much.

        A worker may hold what the others leave. If one of those has too little, it may hold its share.
        """
        self._join()
        if self._place is None:
            return budget // (os.cpu_count() or 1)
        if used > self._left(budget) and time.monotonic() > self._looked + _LOOK_FOR_DEAD_S:
            self._forget_dead()
        left = self._left(budget)
        others_are_short = np.delete(self._workers[:, 1], self._place).any()
        return min(left, self.share(budget)) if others_are_short else left

    def share(self, budget: int) -> int:
        """Return the even share of a worker."""
        others = np.count_nonzero(np.delete(self._workers[:, 0], self._place or 0))
        return budget // (int(others) + 1)

    def tell(self, used: int, *, is_short: bool) -> None:
        """Write what this worker holds, and whether that is too little for it."""
        self._join()
        if self._place is not None:
            self._workers[self._place] = (used, is_short)

    def served(self, key: Key, epoch: int) -> None:
        """Note that a slice was served in this epoch, wherever that was."""
        self._join()
        place, mark = _mark(key)
        self._marks[place] = (mark << np.uint64(32)) | np.uint64(epoch & 0xFFFFFFFF)

    def last_served(self, keys: Sequence[Key]) -> list[int | None]:
        """Return the last epoch in which each slice was served on this machine; None if that is not known."""
        self._join()
        found: list[int | None] = []
        for place, mark in map(_mark, keys):
            word = self._marks[place]
            found.append(int(word & _LOW) if word >> np.uint64(32) == mark else None)
        return found

    def _left(self, budget: int) -> int:
        return max(0, budget - int(np.delete(self._workers[:, 0], self._place or 0).sum()))

    def _join(self) -> None:
        if self._owner == os.getpid():
            return
        self._owner, self._place = os.getpid(), None
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if os.fstat(self._file).st_uid != os.getuid():
                return
            os.ftruncate(self._file, _SIZE)
            memory = mmap.mmap(self._file, _SIZE)
        except OSError:  # no place to share anything: `allowed` goes by the number of cores
            return
        words = np.frombuffer(memory, np.uint64)
        self._workers, self._marks = words[: 2 * WORKERS].reshape(-1, 2), words[2 * WORKERS :]
        self._place = next((place for place in range(WORKERS) if self._lock(place)), None)
        if self._place is not None:
            self._workers[self._place] = (0, 0)
        self._forget_dead()

    def _forget_dead(self) -> None:
        self._looked = time.monotonic()
        for place in np.flatnonzero(self._workers[:, 0]).tolist():
            if place != self._place and self._lock(place):
                self._workers[place] = (0, 0)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _lock(self, place: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            return True
        except OSError:
            return False


def _mark(key: Key) -> tuple[int, np.uint64]:
    words = repr(key).encode()
    return zlib.crc32(words) % _MARKS, np.uint64(zlib.adler32(words) ^ zlib.crc32(words[::-1]) or 1)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
