"""Copies of folders that cost next to nothing: links to files that are written once and never changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def files_below(folder: Path) -> Iterator[Path]:
    """All files, however deep, by their path from the folder."""
    return (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())


def link_tree(source: Path, target: Path) -> None:
    """Link all files of a folder that may be written to meanwhile.

    A snapshot of RocksDB names tables (.sst) that were there before it, so tables are looked for last.
    """
    names = [name for name in files_below(source) if ".sst" not in name.name]
    for name in names:
        link(source / name, target / name)
    for name in files_below(source):
        if ".sst" in name.name:
            link(source / name, target / name)


def link(source: Path, target: Path) -> None:
    """Link a file, if it is there: Spark may have cleared away what no restart needs any more."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        return
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
