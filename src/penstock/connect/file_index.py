"""Which files a source has taken, in which order: an append-only log next to the checkpoint.

Offsets name files by their number here, so they stay small however many files there are.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from penstock.connect.private import FILE
from penstock.errors import RunDirectoryBroken

Kind = Literal["taken", "growing", "changed"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as it was when it was taken, or the news that a taken file has changed since.

    A file that grew has an entry for each part; ``growing`` parts may end in the middle of a record.
    """

    path: str
    size: int
    mtime_ns: int
    mark: int  # of its content, see file_scan.mark_of
    kind: Kind = "taken"
    start: int = 0

    def to_line(self) -> bytes:
        """The entry as a line of the log, with a checksum: a changed size would mean other rows."""
        text = json.dumps(list(astuple(self))).encode()
        return b"%s\t%08x\n" % (text, zlib.crc32(text))

    @classmethod
    def of_line(cls, line: bytes) -> FileEntry:
        """Raises ValueError for a damaged line. Lines had no checksum at first, and are read still."""
        text, tab, mark = line.partition(b"\t")
        if tab and mark != b"%08x" % zlib.crc32(text):
            raise ValueError("its checksum does not fit")
        return cls(*json.loads(text))


class FileIndex:
    """Numbered entries, durable before anyone is told their number.

    In memory it costs about 200 bytes per file.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read_to = 0
        self._paths: list[str] = []
        self._numbers = {"size": array("q"), "mtime_ns": array("q"), "mark": array("Q")}
        self._kinds: dict[int, Kind] = {}
        self._starts: dict[int, int] = {}
        self._latest: dict[str, int] = {}
        log.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            pass

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> FileEntry:
        if not 0 <= number < len(self):
            raise IndexError(number)
        size, mtime_ns, mark = (values[number] for values in self._numbers.values())
        kind, start = self._kinds.get(number, "taken"), self._starts.get(number, 0)
        return FileEntry(self._paths[number], size, mtime_ns, mark, kind, start)

    def latest(self, path: str) -> FileEntry | None:
        """What was last written down about a path."""
        number = self._latest.get(path)
        return None if number is None else self[number]

    def is_known(self, path: str, size: int, mtime_ns: int) -> bool:
        """Whether nothing has changed since a path was written down. Asked for every file at every scan."""
        number = self._latest.get(path, -1)
        sizes, times = self._numbers["size"], self._numbers["mtime_ns"]
        return number >= 0 and sizes[number] == size and times[number] == mtime_ns

    def touched(self, path: str, mtime_ns: int) -> None:
        """A file has another time and is the same all the same. Not written down: it is found again."""
        self._numbers["mtime_ns"][self._latest[path]] = mtime_ns

    def bytes_from(self, number: int) -> int:
        """The bytes of all files from a number on."""
        sizes = self._numbers["size"]
        reported = sum(sizes[n] for n, kind in self._kinds.items() if n >= number and kind == "changed")
        before = sum(start for n, start in self._starts.items() if n >= number)
        return sum(sizes[number:]) - reported - before

    def append(self, entries: Iterable[FileEntry]) -> None:
        """Write entries down; durable when this returns. What another process added is kept."""
        with self._locked() as handle:
            fresh = [entry for entry in entries if self.latest(entry.path) != entry and self._is_news(entry)]
            data = b"".join(entry.to_line() for entry in fresh)
            if data:
                os.pwrite(handle, data, self._read_to)
                os.fsync(handle)
                self._read_to += len(data)
                for entry in fresh:
                    self._remember(entry)

    def _is_news(self, entry: FileEntry) -> bool:
        known = self.latest(entry.path)
        if known is None or entry.kind == "changed":
            return (known is None) == (entry.kind != "changed")
        is_end = known.kind == "growing" and entry.kind == "taken"
        return entry.start > 0 and (entry.size > known.size or is_end)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The log, up to date and without a torn last line; only one process at a time."""
        handle = os.open(self._log, os.O_RDWR | os.O_CREAT, FILE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self._catch_up(handle)
            yield handle
        finally:
            os.close(handle)

    def _catch_up(self, handle: int) -> None:
        data = os.pread(handle, os.fstat(handle).st_size - self._read_to, self._read_to)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a crash while writing; no offset names what was not synced
            os.ftruncate(handle, self._read_to + whole)
        for line in data[:whole].split(b"\n")[:-1]:
            try:
                self._remember(FileEntry.of_line(line))
            except (ValueError, TypeError) as error:
                raise RunDirectoryBroken(
                    path=self._log,
                    what=f"line {len(self) + 1} is damaged ({error})",
                    next_step="restore the file from a savepoint or another copy, or begin a new run",
                ) from error
        self._read_to += whole

    def _remember(self, entry: FileEntry) -> None:
        if entry.kind != "taken":
            self._kinds[len(self)] = entry.kind
        if entry.start:
            self._starts[len(self)] = entry.start
        self._latest[entry.path] = len(self)
        self._paths.append(entry.path)
        for name, values in self._numbers.items():
            values.append(getattr(entry, name))
