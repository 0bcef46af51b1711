"""Plain Parquet files with a manifest per epoch, for readers without Delta."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connect.sink import Sink, SinkContext, SinkWriter, file_name, shown_path

if TYPE_CHECKING:
    import polars as pl

_FILE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, init=False)
class ParquetFiles(Sink):
    """Write Parquet files below ``path``, each epoch exactly once.

    ``_committed/`` holds one manifest per epoch; ``read`` sees only files that a manifest names.
    Files lie at the top only around their commit, so a plain ``*.parquet`` is right except for the
    remains of a crash, which the repeated epoch clears away. What a commit costs does not depend on how
    many files there are.
    """

    path: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", str(Path(path).absolute()))

    def open(self, context: SinkContext) -> ParquetWriter:
        """Begin pending files."""
        return ParquetWriter(self._pending(context), context)

    @property
    def place(self) -> Path:
        """What a committed epoch leaves."""
        return Path(self.path, "_committed")

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Move the files to the top and name them in the epoch's manifest."""
        folder, manifest = Path(self.path), self._manifest(context)
        names = [name for message in messages for name in message]
        self._sweep_once(context, names)
        if names and not manifest.exists():
            # Written down first: whoever repeats the epoch finds what a commit that crashed has moved.
            _create(self._intents(context) / f"{uuid.uuid4().hex}.json", {"files": names})
            for name in names:
                _move(self._pending(context) / name, folder / name)
            _create(manifest, {"files": names, "committed_ns": time.time_ns()})
        self._sweep(context, names)

    def read(self) -> pl.DataFrame:
        """All committed rows, in the order of runs and epochs."""
        return read(self.path)

    def newest_epoch(self, context: SinkContext) -> int | None:
        """The newest epoch that has a manifest."""
        return max((int(path.stem) for path in self._manifest(context).parent.glob("*.json")), default=None)

    def describe(self) -> str:
        """One line for people."""
        return f"ParquetFiles({shown_path(self.path)})"

    def _manifest(self, context: SinkContext) -> Path:
        # By run and sink: a new run begins at epoch 0 again, and must not be taken for a repetition.
        return Path(self.path, "_committed", file_name(context.app_id), f"{context.epoch:012d}.json")

    def _pending(self, context: SinkContext) -> Path:
        return Path(self.path, "_pending", file_name(context.app_id), f"{context.epoch:012d}")

    def _intents(self, context: SinkContext) -> Path:
        return Path(self.path, "_intents", file_name(context.app_id), f"{context.epoch:012d}")

    def _sweep(self, context: SinkContext, names: Sequence[str]) -> None:
        """Remove what other attempts at this epoch left; only what the manifest names stays.

        Looks into the folders of this epoch alone: a table may hold any number of files.
        """
        intents = list(_entries(self._intents(context)))
        moved = {name for intent in intents for name in _named_by(intent)} | set(names)
        for name in moved - set(_named_by(self._manifest(context))):
            Path(self.path, name).unlink(missing_ok=True)
        for folder in (self._intents(context), self._pending(context)):
            shutil.rmtree(folder, ignore_errors=True)

    def _sweep_once(self, context: SinkContext, names: Sequence[str]) -> None:
        """Remove what a release without intents left of this epoch, at the first commit of a run."""
        intents = self._intents(context).parent
        if intents.exists():
            return
        kept = {*_named_by(self._manifest(context)), *names}
        for place in (Path(self.path), Path(self.path, "_pending")):
            for leftover in place.glob(f"{_prefix(context)}*.parquet"):
                if leftover.name not in kept:
                    leftover.unlink(missing_ok=True)
        intents.mkdir(parents=True, exist_ok=True)


class ParquetWriter(SinkWriter):
    """Collects rows into few pending files per task."""

    def __init__(self, folder: Path, context: SinkContext) -> None:
        self._folder = folder
        self._context = context
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._names: list[str] = []

    def write(self, df: pl.DataFrame) -> None:
        from penstock.frames.types import conform

        if df.height:
            self._held.append(conform(df, self._context.schema))
            self._held_bytes += int(df.estimated_size())
            if self._held_bytes >= _FILE_BYTES:
                self._flush()

    def close(self) -> list[str]:
        self._flush()
        return self._names

    def abort(self) -> None:
        self._held.clear()
        for name in self._names:
            (self._folder / name).unlink(missing_ok=True)
        self._names = []

    def _flush(self) -> None:
        import polars as pl

        if not self._held:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._names.append(f"{_prefix(self._context)}{uuid.uuid4().hex}.parquet")
        pl.concat(self._held).write_parquet(self._folder / self._names[-1])
        self._held, self._held_bytes = [], 0


def read(path: str | os.PathLike[str]) -> pl.DataFrame:
    """The rows that committed epochs hold; columns that came later are null in earlier epochs."""
    import polars as pl

    frames = [pl.read_parquet(Path(path, name)) for name in committed_files(path)]
    return pl.concat(frames, how="diagonal_relaxed") if frames else pl.DataFrame()


def committed_files(path: str | os.PathLike[str]) -> list[str]:
    """The names of all committed files, in the order of runs and epochs."""
    runs = []
    for run in Path(path, "_committed").glob("*"):
        manifests = [json.loads(file.read_bytes()) for file in sorted(run.glob("*.json"))]
        runs.append((manifests[0]["committed_ns"] if manifests else 0, run.name, manifests))
    return [
        name
        for _, _, manifests in sorted(runs, key=lambda r: r[:2])
        for m in manifests
        for name in m["files"]
    ]


def _prefix(context: SinkContext) -> str:
    return f"{file_name(context.app_id)}-{context.epoch:012d}-"


def _named_by(manifest: Path) -> list[str]:
    """Return the files that a manifest names; none if there is no manifest."""
    try:
        found: list[str] = json.loads(manifest.read_bytes())["files"]
    except FileNotFoundError:
        return []
    return found


def _entries(folder: Path) -> Iterator[Path]:
    """The files in a folder that may not be there, but for those that are being written."""
    with suppress(FileNotFoundError):
        yield from folder.glob("[!.]*")


def _move(pending: Path, final: Path) -> None:
    """Rename; nothing to do when a commit that crashed has done it."""
    try:
        pending.rename(final)
    except FileNotFoundError:
        if not final.exists():
            raise


def _create(path: Path, content: dict[str, Any]) -> None:
    """Put a file in place in one step, unless it is there: of two that race, the first one counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{uuid.uuid4().hex}.tmp")
    scratch.write_text(json.dumps(content))
    try:
        os.link(scratch, path)
    except FileExistsError:
        return
    finally:
        scratch.unlink()
