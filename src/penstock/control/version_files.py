"""The files of the stored versions: programs, their records, and builds for other Pythons.

``000003.program`` holds the code as it was stored, ``000003.record.json`` says what made it and what each
node is by its sources, ``000003.cpython-3.13-polars-2.1.build`` is the same program for another Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.connect.sealed import DIGEST_BYTES, digest, read_sealed, write_sealed
from penstock.connect.sink import write_atomically
from penstock.control.shipping import dumps, loads, search_path
from penstock.control.version_record import (
    FORMAT,
    VersionRecord,
    build_name,
    made_by,
    python_of,
    record_of,
    runs_here,
)
from penstock.control.way_back import way_back
from penstock.errors import RunDirectoryBroken, VersionNotLoadable
from penstock.plan.program import Program
from penstock.topology.codec import to_json


@dataclass(frozen=True, slots=True)
class VersionFiles:
    """The folder of the versions of one run."""

    folder: Path

    def numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.program"))

    def store(self, version: int, program: Program, *, like: int | None = None) -> None:
        """Write a version, for good; the program last, since it is what makes a version.

        ``like`` is the version that the program's nodes are from, unless they come from their sources.
        """
        earlier = None if like is None else self.record(like)
        self.store_record(version, record_of(program) if earlier is None else earlier.placed_as(program))
        text = json.dumps(to_json(program.graph), indent=1)
        write_atomically(self.folder / f"{version:06d}.json", text.encode())
        _write(self._program(version), program)

    def store_record(self, version: int, record: VersionRecord) -> None:
        write_sealed(self._record(version), record.to_json())

    def store_build(self, version: int, program: Program) -> None:
        """Write a version as rebuilt for this Python, beside the original."""
        _write(self._build(version), program)

    def has_build(self, version: int) -> bool:
        return self._build(version).exists()

    def record(self, version: int) -> VersionRecord | None:
        """Read what made a version. Return None if it was stored without a record of this format."""
        try:
            values = read_sealed(self._record(version), next_step=way_back(self.folder.parent))
        except FileNotFoundError:
            return None
        return VersionRecord.from_json(values) if values.get("format") == FORMAT else None

    def load(self, version: int) -> Program:
        """Read a version; it is checked against its digest."""
        build, original = self._build(version), self._program(version)
        for path in (build, original):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            return _load(self, version, path, (status.st_ino, status.st_size, status.st_mtime_ns))
        raise RunDirectoryBroken(
            path=original, what="is missing", next_step=way_back(self.folder.parent)
        ) from None

    def _program(self, version: int) -> Path:
        return self.folder / f"{version:06d}.program"

    def _record(self, version: int) -> Path:
        return self.folder / f"{version:06d}.record.json"

    def _build(self, version: int) -> Path:
        return self.folder / f"{version:06d}.{build_name(made_by())}.build"


def _write(path: Path, program: Program) -> None:
    body = dumps(program)
    write_atomically(path, digest(body) + body)


@lru_cache(maxsize=16)
def _load(files: VersionFiles, version: int, path: Path, _identity: tuple[int, ...]) -> Program:
    """Read the program in a file. The identity tells the file from another one in its place."""
    content = path.read_bytes()
    body = content[DIGEST_BYTES:]
    if digest(body) != content[:DIGEST_BYTES]:
        step = way_back(files.folder.parent)
        raise RunDirectoryBroken(path=path, what="is damaged: its digest does not fit", next_step=step)
    if path.suffix != ".build":
        _require_runs_here(files, version, body)
    try:
        program: Program = loads(body)
    except Exception as error:
        record = files.record(version)
        raise _not_loadable(files, version, record, f"{type(error).__name__}: {error}") from error
    return program


def _require_runs_here(files: VersionFiles, version: int, body: bytes) -> None:
    """Raise VersionNotLoadable for byte code of another Python: running it would end the process."""
    record, here = files.record(version), made_by()
    if record is not None:
        if not runs_here(record.made_by):
            raise _not_loadable(files, version, record, f"this is Python {here['python']}")
        return
    python = python_of(search_path(body))
    if python is not None and not runs_here({**here, "python": python}):
        raise VersionNotLoadable(
            directory=files.folder.parent,
            version=version,
            what=f"was made by Python {python} and by a Penstock that kept no record of its sources, "
            f"and this is Python {here['python']}",
            next_step=f"run it once more by Python {python} and this Penstock (--until caught-up will do), "
            "which notes the sources; then go on with this Python",
        )


def _not_loadable(
    files: VersionFiles, version: int, record: VersionRecord | None, why: str
) -> VersionNotLoadable:
    by = "an earlier Penstock"
    if record is not None:
        by = f"Python {record.made_by['python']} with Polars {record.made_by['polars']}"
    places = ", ".join(record.files) if record is not None and record.files else "its source"
    return VersionNotLoadable(
        directory=files.folder.parent,
        version=version,
        what=f"was made by {by} and cannot be loaded here ({why})",
        next_step=f"start the topology again (penstock run APP, from {places}): if its sources are unchanged "
        "it is rebuilt and goes on with its state; or go on with what made it",
    )
