"""Finding the files of a directory, a pattern or a single path."""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.connect.file_index import FileEntry, FileIndex
from penstock.errors import SourceUnavailable

_UNFINISHED_PREFIXES = (".", "_")
_UNFINISHED_SUFFIXES = (".tmp", ".part")
_MARK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there now; ``name`` is its path below the root."""

    name: str
    size: int
    mtime_ns: int


def root_of(path: str) -> str:
    """The folder that a path or pattern lives in: the part before the first wildcard."""
    if not glob.has_magic(path):
        return path if Path(path).is_dir() or not Path(path).is_file() else str(Path(path).parent)
    parts = Path(path).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:fixed]))


def root_is_there(path: str, *, source: str, must: bool) -> bool:
    """Whether there is anything to look into. A folder may still be created, unless it ``must`` be there."""
    root = Path(root_of(path))
    if root.exists():
        return True
    if must or not root.parent.exists():
        step = "create it, or correct the path"
        raise SourceUnavailable(source=source, what="there is nothing", where=str(root), next_step=step)
    return False


def find(path: str) -> list[Found]:
    """All finished files, oldest first. Files that are being written are left alone."""
    prefix = os.path.join(root_of(path), "")  # noqa: PTH118
    found = [file for candidate in _candidates(path) if (file := _look(candidate, prefix))]
    return sorted(found, key=lambda file: (file.mtime_ns, file.name))


def news(path: str, index: FileIndex) -> list[FileEntry]:
    """What the index does not know yet: files that came, and taken files that changed."""
    root = root_of(path)
    entries = []
    for file in find(path):
        if index.is_known(file.name, file.size, file.mtime_ns):
            continue
        known = index.latest(file.name)
        if known is None and not file.size:
            continue  # just created, or of no use
        if known is None:
            mark = mark_of(os.path.join(root, file.name), file.size)  # noqa: PTH118
            entries.append(FileEntry(file.name, file.size, file.mtime_ns, mark))
        elif _is_same(known, file, root):
            index.touched(file.name, file.mtime_ns)
        else:
            entries.append(FileEntry(file.name, file.size, file.mtime_ns, 0, "changed"))
    return entries


def _is_same(known: FileEntry, file: Found, root: str) -> bool:
    """Whether a file with another time was only touched, or copied from another machine."""
    path = os.path.join(root, file.name)  # noqa: PTH118
    is_like = known.kind == "taken" and known.size == file.size
    return is_like and mark_of(path, file.size) == known.mark


def mark_of(path: str, size: int) -> int:
    """A mark of the first ``size`` bytes, from both their ends; 0 if they cannot be read.

    It tells a file that grew or was copied from one that was replaced; inode numbers do not, they are used
    again, and times do not either.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(min(size, _MARK_BYTES))
            file.seek(max(0, size - _MARK_BYTES))
            tail = file.read(min(size, _MARK_BYTES))
    except OSError:
        return 0
    return int.from_bytes(hashlib.blake2b(head + tail, digest_size=8).digest(), "little")


def _candidates(path: str) -> Iterator[str]:
    if glob.has_magic(path):
        yield from glob.iglob(path, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    elif Path(path).is_dir():
        with os.scandir(path) as entries:
            yield from (entry.path for entry in entries)
    else:
        yield path


def _look(path: str, prefix: str) -> Found | None:
    name = os.path.basename(path)  # noqa: PTH119 - called for every file at every scan
    if name.startswith(_UNFINISHED_PREFIXES) or name.endswith(_UNFINISHED_SUFFIXES):
        return None
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:  # gone between listing and looking
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Found(path.removeprefix(prefix), status.st_size, status.st_mtime_ns)
