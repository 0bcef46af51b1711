"""What a savepoint is made of: a manifest, and the files of the run directory with a digest of each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.connect.private import open_private
from penstock.connect.sealed import DIGEST_BYTES, read_sealed, write_sealed
from penstock.control.run_directory import RunDirectory
from penstock.control.way_back import MANIFEST
from penstock.errors import RunDirectoryBroken, SavepointBroken

FORMAT = 1
FILES = "files"
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a savepoint holds, and of which moment of which run."""

    topology: str
    run_id: str
    epoch: int
    """The last epoch that is in it."""
    version: int
    """The version of the topology that this epoch ran under."""
    taken_ns: int
    hops: int
    partitions: int
    description: str
    """The topology in words."""
    state_bytes: Mapping[str, int]
    """What the slices of each node held in memory when they last ran."""
    pause_ms: float
    """For how long the run was held; 0 for one that was not running."""
    files: Mapping[str, tuple[int, str]] = field(repr=False)
    """Size and digest of each file."""

    @property
    def nbytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    @property
    def identity(self) -> str:
        """What tells this savepoint from others, wherever it lies."""
        return f"{self.run_id}/{self.epoch}/{self.taken_ns}"


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint in its folder."""

    path: Path
    manifest: Manifest

    @property
    def files(self) -> RunDirectory:
        """The files, which are laid out as in a run directory."""
        return RunDirectory(self.path / FILES)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a folder a savepoint: this is written last."""
    write_sealed(folder / MANIFEST, {"format": FORMAT, **asdict(manifest)})


def open_savepoint(path: Path) -> Savepoint:
    """The savepoint in a folder. Raises SavepointBroken if there is none, or its manifest is damaged."""
    path = path.resolve()
    step = "name the folder that `penstock savepoint list DIR` shows, or take another savepoint"
    try:
        values = read_sealed(path / MANIFEST, next_step=step)
    except (FileNotFoundError, NotADirectoryError):
        what = f"there is no {MANIFEST} in it"
        raise SavepointBroken(savepoint=path, what=what, next_step=step) from None
    except RunDirectoryBroken as error:
        what = f"{MANIFEST} {error.parameters['what']}"
        raise SavepointBroken(savepoint=path, what=what, next_step=step) from None
    if (found := values.pop("format")) != FORMAT:
        what = f"it is of format {found}, and this Penstock reads {FORMAT}"
        raise SavepointBroken(savepoint=path, what=what, next_step="use the Penstock that made it")
    files = {name: (int(size), str(mark)) for name, (size, mark) in values.pop("files").items()}
    return Savepoint(path, Manifest(**values, files=files))


def copy_with_digest(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file for good and give its size and digest."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as old, open(target, "wb", opener=open_private) as new:
        size, mark = _read_through(old, new)
        new.flush()
        os.fsync(new.fileno())
    return size, mark


def faults(savepoint: Savepoint) -> dict[str, str]:
    """What is wrong with each file that is damaged or missing."""
    found = {}
    for name, expected in savepoint.manifest.files.items():
        try:
            with (savepoint.files.path / name).open("rb") as file:
                got = _read_through(file, None)
        except OSError as error:
            found[name] = f"cannot be read ({error.strerror})"
            continue
        if fault := difference(got, expected):
            found[name] = fault
    return found


def difference(got: tuple[int, str], expected: tuple[int, str]) -> str | None:
    """How a file differs from what its manifest says."""
    if got[0] != expected[0]:
        return f"has {got[0]} bytes instead of {expected[0]}"
    return None if got[1] == expected[1] else "is damaged: its digest does not fit"


def _read_through(old: Any, new: Any | None) -> tuple[int, str]:
    mark, size = hashlib.blake2b(digest_size=DIGEST_BYTES), 0
    while piece := old.read(_PIECE_BYTES):
        mark.update(piece)
        size += len(piece)
        if new is not None:
            new.write(piece)
    return size, mark.hexdigest()
