"""Which files a source has taken, in which order: an append-only log next to the checkpoint.

Offsets name files by their number here, so they stay small however many files there are.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Literal

from penstock.connect.private import FILE
from penstock.connect.sink import write_atomically
from penstock.errors import RunDirectoryBroken

Kind = Literal["taken", "growing", "changed"]
_FORGOTTEN = b"forgotten "
"""How a log begins that was written anew: the first number, and how many entries without one follow."""


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
        return _sealed(json.dumps(list(astuple(self))).encode())

    @classmethod
    def of_line(cls, line: bytes) -> FileEntry:
        """Raises ValueError for a damaged line. Lines had no checksum at first, and are read still."""
        return cls(*json.loads(_unsealed(line)))


def _sealed(text: bytes) -> bytes:
    return b"%s\t%08x\n" % (text, zlib.crc32(text))


def _unsealed(line: bytes) -> bytes:
    text, tab, mark = line.partition(b"\t")
    if tab and mark != b"%08x" % zlib.crc32(text):
        raise ValueError("its checksum does not fit")
    return text


class FileIndex:
    """Numbered entries, durable before anyone is told their number.

    In memory it costs about 200 bytes per file. Entries that no offset names any more are `forgotten`: of
    files that are still there only the last entry stays, without its number.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._clear()
        with self._locked():
            pass

    def _clear(self) -> None:
        self._inode = -1
        self._read_to = 0
        self._base = 0
        """The number of the first entry; those before are forgotten."""
        self._known: dict[str, FileEntry] = {}
        """The last entries of files whose entries have no number any more."""
        self._paths: list[str] = []
        self._numbers = {"size": array("q"), "mtime_ns": array("q"), "mark": array("Q")}
        self._kinds: dict[int, Kind] = {}
        self._starts: dict[int, int] = {}
        self._latest: dict[str, int] = {}

    def __len__(self) -> int:
        return self._base + len(self._paths)

    def __getitem__(self, number: int) -> FileEntry:
        if not self._base <= number < len(self):
            raise IndexError(number)
        at = number - self._base
        size, mtime_ns, mark = (values[at] for values in self._numbers.values())
        kind, start = self._kinds.get(number, "taken"), self._starts.get(number, 0)
        return FileEntry(self._paths[at], size, mtime_ns, mark, kind, start)

    @property
    def base(self) -> int:
        """The number of the first entry that is not forgotten."""
        return self._base

    def paths(self) -> Iterator[str]:
        """Yield all paths that are known."""
        yield from self._known
        yield from self._latest

    def latest(self, path: str) -> FileEntry | None:
        """What was last written down about a path."""
        number = self._latest.get(path)
        return self._known.get(path) if number is None else self[number]

    def is_known(self, path: str, size: int, mtime_ns: int) -> bool:
        """Whether nothing has changed since a path was written down. Asked for every file at every scan."""
        number = self._latest.get(path)
        if number is None:
            entry = self._known.get(path)
            return entry is not None and (entry.size, entry.mtime_ns) == (size, mtime_ns)
        at, sizes, times = number - self._base, self._numbers["size"], self._numbers["mtime_ns"]
        return sizes[at] == size and times[at] == mtime_ns

    def touched(self, path: str, mtime_ns: int) -> None:
        """A file has another time and is the same all the same. Not written down: it is found again."""
        number = self._latest.get(path)
        if number is None:
            self._known[path] = replace(self._known[path], mtime_ns=mtime_ns)
        else:
            self._numbers["mtime_ns"][number - self._base] = mtime_ns

    def bytes_from(self, number: int) -> int:
        """The bytes of all files from a number on."""
        sizes = self._numbers["size"]
        reported = sum(self[n].size for n, kind in self._kinds.items() if n >= number and kind == "changed")
        before = sum(start for n, start in self._starts.items() if n >= number)
        return sum(sizes[max(0, number - self._base) :]) - reported - before

    def forget(self, below: int, gone: Collection[str]) -> None:
        """Drop the entries below a number, and everything about paths that are gone and only there.

        No offset may name these numbers any more. The log is written anew, in one step.
        """
        with self._locked():
            below = min(max(below, self._base), len(self))
            old = {path: self.latest(path) for path in self.paths() if self._latest.get(path, -1) < below}
            kept = [entry for path, entry in old.items() if entry is not None and path not in gone]
            lines = [_FORGOTTEN + json.dumps([below, len(kept)]).encode()]
            entries = [*kept, *(self[n] for n in range(below, len(self)))]
            data = b"".join([_sealed(lines[0]), *(entry.to_line() for entry in entries)])
            write_atomically(self._log, data)
        with self._locked():
            pass  # it is another file now, and is read once

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
        while True:
            handle = os.open(self._log, os.O_RDWR | os.O_CREAT, FILE)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if not self._is_current(handle):  # written anew while this one waited
                    continue
                self._catch_up(handle)
                yield handle
                return
            finally:
                os.close(handle)

    def _is_current(self, handle: int) -> bool:
        try:
            return os.fstat(handle).st_ino == self._log.stat().st_ino
        except FileNotFoundError:
            return False

    def _catch_up(self, handle: int) -> None:
        if self._inode != os.fstat(handle).st_ino:
            self._clear()
            self._inode = os.fstat(handle).st_ino
        data = os.pread(handle, os.fstat(handle).st_size - self._read_to, self._read_to)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # a crash while writing; no offset names what was not synced
            os.ftruncate(handle, self._read_to + whole)
        lines = data[:whole].split(b"\n")[:-1]
        try:
            lines = self._known_of(lines) if self._read_to == 0 else lines
            for line in lines:
                self._remember(FileEntry.of_line(line))
        except (ValueError, TypeError) as error:
            raise RunDirectoryBroken(
                path=self._log,
                what=f"line {len(self) - self._base + len(self._known) + 1} is damaged ({error})",
                next_step="restore the file from a savepoint or another copy, or begin a new run",
            ) from error
        self._read_to += whole

    def _known_of(self, lines: list[bytes]) -> list[bytes]:
        """Take what a log that was written anew begins with; return the lines of numbered entries."""
        if not lines or not lines[0].startswith(_FORGOTTEN):
            return lines
        base, count = json.loads(_unsealed(lines[0]).removeprefix(_FORGOTTEN))
        if len(lines) < 1 + count:
            raise ValueError("entries are missing")
        known = [FileEntry.of_line(line) for line in lines[1 : 1 + count]]
        self._base, self._known = base, {entry.path: entry for entry in known}
        return lines[1 + count :]

    def _remember(self, entry: FileEntry) -> None:
        if entry.kind != "taken":
            self._kinds[len(self)] = entry.kind
        if entry.start:
            self._starts[len(self)] = entry.start
        self._latest[entry.path] = len(self)
        self._known.pop(entry.path, None)
        self._paths.append(entry.path)
        for name, values in self._numbers.items():
            values.append(getattr(entry, name))
