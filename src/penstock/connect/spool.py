"""The spool of a pipe: its bytes in numbered segments of whole lines, the last one growing.

Bytes move from the pipe to the file inside of the kernel, so there is no moment at which only the memory of
this process holds them. What was moved survives the death of the process; of the machine, what is older than
the last sync.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import threading
import time
from pathlib import Path
from types import TracebackType

from penstock.connect.file_cuts import line_end_before
from penstock.connect.private import FILE
from penstock.connect.sink import write_atomically
from penstock.errors import RunDirectoryMismatch

SEGMENT_BYTES = 64 << 20
_STEP_BYTES = 1 << 20
_SYNC_S = 1.0
_WAIT_MS = 100


def segments(folder: Path) -> dict[int, Path]:
    """The segments that are there, by number."""
    return {int(path.stem): path for path in sorted(folder.glob("*.lines"))}


def ended(folder: Path) -> bool:
    """Whether the input has come to its end."""
    return (folder / "ended").exists()


class Spooler:
    """Moves a file descriptor's bytes into the spool, in a thread, until its end or ``__exit__``."""

    def __init__(self, folder: Path, source: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._source = source
        self._segment_bytes = segment_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spool", daemon=True)
        self.failure: OSError | None = None

    def __enter__(self) -> Spooler:
        self._folder.mkdir(parents=True, exist_ok=True)
        if ended(self._folder):
            self._refuse_more()
            return self
        self._number = max(segments(self._folder), default=0)
        self._mend()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _refuse_more(self) -> None:
        """What was to be read is here. A new pipe would have nowhere to go, and that must not be silent."""
        mode = os.fstat(self._source).st_mode if self._source >= 0 else 0
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode):
            raise RunDirectoryMismatch(  # final: no waiting helps
                directory=self._folder,
                what="holds all of the standard input of this run, which has ended before",
                next_step="finish it without input (< /dev/null), or begin another run with --dir",
            )

    def _mend(self) -> None:
        """A crash while a segment was begun: the line that went over to it is still in the one before."""
        whole = segments(self._folder).get(self._number - 1)
        if whole is not None:
            size = whole.stat().st_size
            os.truncate(whole, line_end_before(str(whole), 0, size))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:012d}.lines"

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self._fill_segment():
                    break
                self._begin_next()
        except OSError as error:  # told by the planner: nothing here is between it and the user
            self.failure = error
            write_atomically(self._folder / "failure", str(error).encode())

    def _fill_segment(self) -> bool:
        """Move bytes until the segment is full; False when the input has ended or the run is stopping."""
        target = os.open(self._path(self._number), os.O_RDWR | os.O_CREAT, FILE)
        try:
            size, synced = os.lseek(target, 0, os.SEEK_END), time.monotonic()
            waiting = select.poll()
            waiting.register(self._source, select.POLLIN)
            while size < self._segment_bytes and not self._stopping.is_set():
                if waiting.poll(_WAIT_MS):
                    moved = move(self._source, target, _STEP_BYTES)
                    if not moved:
                        os.fsync(target)
                        write_atomically(self._folder / "ended", b"")
                        return False
                    size += moved
                if time.monotonic() - synced > _SYNC_S:
                    os.fdatasync(target)
                    synced = time.monotonic()
            os.fsync(target)
            return not self._stopping.is_set()
        finally:
            os.close(target)

    def _begin_next(self) -> None:
        """Let the next segment begin with the unfinished line of this one."""
        path = self._path(self._number)
        size = path.stat().st_size
        cut = line_end_before(str(path), 0, size)
        if not cut:  # a line longer than a segment: go on with it
            self._segment_bytes += SEGMENT_BYTES
            return
        with open(path, "rb") as file:
            file.seek(cut)
            write_atomically(self._path(self._number + 1), file.read())
        os.truncate(path, cut)
        self._number += 1


def move(source: int, target: int, most: int) -> int:
    """Move bytes from one file descriptor to another; 0 at the end of the source."""
    try:
        return os.splice(source, target, most)
    except OSError as error:
        if error.errno != errno.EINVAL:  # splice wants a pipe; files and terminals are read
            raise
    data = memoryview(os.read(source, most))
    written = 0
    while written < len(data):
        written += os.write(target, data[written:])
    return len(data)
