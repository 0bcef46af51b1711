"""Finding the files of a directory, a pattern or a single path."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.connect.file_index import FileEntry, FileIndex

_UNFINISHED_PREFIXES = (".", "_")
_UNFINISHED_SUFFIXES = (".tmp", ".part")


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there now; ``name`` is its path below the root."""

    name: str
    size: int
    mtime_ns: int
    inode: int


def root_of(path: str) -> str:
    """The folder that a path or pattern lives in: the part before the first wildcard."""
    if not glob.has_magic(path):
        return path if Path(path).is_dir() or not Path(path).is_file() else str(Path(path).parent)
    parts = Path(path).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:fixed]))


def find(path: str) -> list[Found]:
    """All finished files, oldest first. Empty files and files that are being written are left alone."""
    root = root_of(path)
    found = [file for candidate in _candidates(path) if (file := _look(candidate, root))]
    return sorted(found, key=lambda file: (file.mtime_ns, file.name))


def news(found: list[Found], index: FileIndex) -> list[FileEntry]:
    """What the index does not know yet: files that came, and taken files that changed."""
    entries = []
    for file in found:
        known = index.latest(file.name)
        if known is None:
            entries.append(FileEntry(file.name, file.size, file.mtime_ns, file.inode))
        elif (known.size, known.mtime_ns) != (file.size, file.mtime_ns):
            entries.append(FileEntry(file.name, file.size, file.mtime_ns, file.inode, "changed"))
    return entries


def _candidates(path: str) -> Iterator[str]:
    if glob.has_magic(path):
        yield from glob.iglob(path, recursive=True)
    elif Path(path).is_dir():
        with os.scandir(path) as entries:
            yield from (entry.path for entry in entries)
    else:
        yield path


def _look(path: str, root: str) -> Found | None:
    name = os.path.basename(path)  # noqa: PTH119 - called for every file at every scan
    if name.startswith(_UNFINISHED_PREFIXES) or name.endswith(_UNFINISHED_SUFFIXES):
        return None
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:  # gone between listing and looking
        return None
    if not os.path.isfile(path) or not status.st_size:  # noqa: PTH113
        return None
    return Found(os.path.relpath(path, root), status.st_size, status.st_mtime_ns, status.st_ino)
