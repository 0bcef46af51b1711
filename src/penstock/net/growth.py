"""Which captures there are: files that came, files that grew, and files that are no longer what they were.

What was taken of each is in a `FileIndex`. A file that ends in the middle of a record is taken as growing:
that record is left for the entry which its growth becomes. When nothing was added for a while the file is
taken to have ended, and what is left becomes an entry that reports it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from penstock.connect.file_index import FileEntry, FileIndex
from penstock.connect.file_scan import Found, find, mark_of, root_is_there, root_of
from penstock.net.boundaries import ends_whole, resume_at, whole_end
from penstock.net.capture import HEAD_BYTES, Resume
from penstock.net.feeds import codec_by_content
from penstock.net.opening import NotACapture

SETTLED_NS = 60_000_000_000
_MOST_RESUMES = 64


class CaptureFiles:
    """The files of a path, a pattern or a directory, in the order in which they are read."""

    def __init__(
        self,
        path: str,
        log: Path,
        clock_ns: Callable[[], int] = time.time_ns,
        *,
        must_exist: bool = False,
    ) -> None:
        self._where = path
        self._must_exist = must_exist
        self._clock_ns = clock_ns
        self._resumes: dict[tuple[str, int], Resume] = {}
        self._ended: set[tuple[str, int]] = set()
        self.index = FileIndex(log)
        self.has_open = False

    def path(self, entry: FileEntry) -> str:
        """Where a file lies."""
        return os.path.normpath(os.path.join(root_of(self._where), entry.path))  # noqa: PTH118

    def is_compressed(self, entry: FileEntry) -> bool:
        """Whether a file can only be taken whole."""
        return codec_by_content(self.path(entry)) is not None

    def resume(self, entry: FileEntry, position: int) -> Resume | None:
        """What must be known to read from a position on; None for the beginning.

        After a restart a pcapng file is walked through once to find it again.
        """
        if position == 0:
            return None
        key = (entry.path, position)
        if key not in self._resumes:
            self.remember(entry, resume_at(self.path(entry), entry.size, position))
        return self._resumes[key]

    def remember(self, entry: FileEntry, resume: Resume) -> None:
        """Keep what a walk has found."""
        while len(self._resumes) >= _MOST_RESUMES:
            del self._resumes[next(iter(self._resumes))]
        self._resumes[entry.path, resume.at] = resume

    def scan(self, *, end_all: bool = False) -> None:
        """Write down what is new. ``end_all``: files that end in the middle of a record have ended."""
        must = self._must_exist and not len(self.index)
        if not root_is_there(self._where, source="pcap", must=must):
            return
        fresh: list[FileEntry] = []
        still_open = False
        for file in find(self._where):
            known = self.index.latest(file.name)
            is_same = known is not None and self.index.is_known(file.name, file.size, file.mtime_ns)
            is_open = (
                known is not None and known.kind == "growing" and (file.name, file.size) not in self._ended
            )
            if is_same and not is_open:
                continue
            entry = self._news(file, known, has_ended=end_all or self._is_settled(file))
            if entry is not None:
                fresh.append(entry)
            still_open |= is_open if entry is None else entry.kind == "growing"
        self.index.append(fresh)
        self.has_open = still_open

    def _is_settled(self, file: Found) -> bool:
        return self._clock_ns() - file.mtime_ns >= SETTLED_NS

    def _news(self, file: Found, known: FileEntry | None, *, has_ended: bool) -> FileEntry | None:
        if known is None:
            if not file.size or (file.size < HEAD_BYTES and not has_ended):
                return None  # just created
            return self._entry(file, 0, has_ended=has_ended)
        path = self.path(known)
        if known.kind == "changed" or file.size < known.size or mark_of(path, known.size) != known.mark:
            return FileEntry(file.name, file.size, file.mtime_ns, 0, "changed")
        if file.size == known.size and not (known.kind == "growing" and has_ended):
            return None
        return self._rest(file, known, has_ended=has_ended)

    def _rest(self, file: Found, known: FileEntry, *, has_ended: bool) -> FileEntry | None:
        """What a file has behind its last whole record that was taken."""
        try:
            resume = self.resume(known, known.start)
            end = whole_end(self.path(known), known.size, resume, is_open=known.kind == "growing")
        except (OSError, NotACapture):
            return FileEntry(file.name, file.size, file.mtime_ns, 0, "changed")
        if end.at >= file.size:
            self._ended.add((file.name, file.size))
            return None
        self.remember(known, end)
        return self._entry(file, end.at, has_ended=has_ended)

    def _entry(self, file: Found, start: int, *, has_ended: bool) -> FileEntry:
        fresh = FileEntry(file.name, file.size, file.mtime_ns, 0)
        path = self.path(fresh)
        try:
            is_whole = has_ended or codec_by_content(path) is not None or ends_whole(path, file.size)
        except (OSError, NotACapture):
            is_whole = True  # the reader says so
        mark = mark_of(path, file.size)
        return FileEntry(file.name, file.size, file.mtime_ns, mark, "taken" if is_whole else "growing", start)
