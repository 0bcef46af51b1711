"""Rows as JSON lines for programs that know nothing of Penstock: one file per epoch."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.connect.sink import (
    Sink,
    SinkContext,
    SinkWriter,
    file_name,
    fresh_name,
    join_atomically,
    put_if_absent,
    shown_path,
)

if TYPE_CHECKING:
    import polars as pl

_BUFFERED_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, init=False)
class JsonLines(Sink):
    """Write a file ``<sink>-<run>-<epoch>.jsonl`` into a folder for each epoch that has rows.

    A file appears whole and never changes, and an epoch that is repeated finds its file: a consumer that
    takes each name once has each row exactly once, and may move files away that it has taken.
    Names ascend within a run. ``ps.Files`` reads such a folder.
    """

    path: str

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", str(Path(path).absolute()))

    def open(self, context: SinkContext) -> JsonLinesWriter:
        """Begin a pending part."""
        return JsonLinesWriter(self._pending(context), context)

    @property
    def place(self) -> Path:
        """What a committed epoch leaves."""
        return Path(self.path, "_committed")

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Put the parts together, in the order of ``messages``, unless that has been done.

        The first commit that notes where its file lies decides what the epoch holds. From there the file is
        moved to its place: that can happen only once, also if a consumer takes it away at once.
        """
        pending, taken = self._pending(context), self._taken(context)
        parts = [pending / name for name in messages if name is not None]
        if parts and not taken.exists():
            staged = Path(self.path, "_staged", _run(context), fresh_name(context))
            join_atomically(staged, parts, private=False)
            if not put_if_absent(taken, staged.name.encode(), private=False):
                staged.unlink(missing_ok=True)
        self._publish(context)
        shutil.rmtree(pending, ignore_errors=True)

    def newest_epoch(self, context: SinkContext) -> int | None:
        """The newest epoch of this run that has a file, or had one."""
        taken = self._taken(context).parent.glob("[0-9]*")
        return max((int(path.name) for path in taken), default=None)

    def describe(self) -> str:
        """One line for people."""
        return f"JsonLines({shown_path(self.path)})"

    def _publish(self, context: SinkContext) -> None:
        """Move the epoch's file to its place, unless it has been there already."""
        taken = self._taken(context)
        staged = (
            taken.read_text() if taken.exists() else ""
        )  # empty: by an earlier Penstock, which had moved it
        if staged:
            final = Path(self.path, f"{_run(context)}-{context.epoch:012d}.jsonl")
            folder = Path(self.path, "_staged", _run(context))
            with suppress(FileNotFoundError):
                (folder / staged).rename(final)
            for leftover in folder.glob(f"{context.epoch:012d}-*"):  # of commits that were not the first
                leftover.unlink(missing_ok=True)

    def _pending(self, context: SinkContext) -> Path:
        return Path(self.path, "_pending", _run(context), f"{context.epoch:012d}")

    def _taken(self, context: SinkContext) -> Path:
        """Says that an epoch is out, also after a consumer has moved its file away."""
        return Path(self.path, "_committed", _run(context), f"{context.epoch:012d}")


class JsonLinesWriter(SinkWriter):
    """Writes the lines of one task into a pending part, some megabytes at a time."""

    def __init__(self, folder: Path, context: SinkContext) -> None:
        self._context = context
        self._path = folder / fresh_name(context)
        self._rows: list[pl.DataFrame] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def write(self, df: pl.DataFrame) -> None:
        from penstock.frames.types import conform

        if df.height:
            self._rows.append(conform(df, self._context.schema))
            self._bytes += int(df.estimated_size())
            if self._bytes >= _BUFFERED_BYTES:
                self._flush()

    def close(self) -> str | None:
        self._flush()
        if self._file is None:
            return None
        with self._file as file:
            os.fsync(file.fileno())
        return self._path.name

    def abort(self) -> None:
        self._rows.clear()
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        import polars as pl

        if not self._rows:
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("wb")
        self._file.write(pl.concat(self._rows).write_ndjson().encode())
        self._file.flush()
        self._rows, self._bytes = [], 0


def _run(context: SinkContext) -> str:
    return f"{file_name(context.sink)}-{file_name(context.run_id)}"
