"""Results kept beside the run, for tests and notebooks: one Arrow file per epoch."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connect.sink import (
    Sink,
    SinkContext,
    SinkWriter,
    file_name,
    fresh_name,
    put_if_absent,
    write_atomically,
)

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Collect(Sink):
    """Keep all rows under the run's directory; ``read`` gives them back in the order of epochs."""

    def open(self, context: SinkContext) -> CollectWriter:
        """Begin a pending file."""
        return CollectWriter(context)

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Join the pending files into the epoch's file, in the order of ``messages``."""
        import polars as pl

        from penstock.frames.types import empty

        folder = _folder(context.run_dir, context.sink)
        final = folder / f"{context.epoch:012d}.arrow"
        if not final.exists():
            parts = [_load(folder / "pending" / name) for name in messages if name is not None]
            if parts or not any(folder.glob("*.arrow")):  # the first epoch leaves the columns behind
                put_if_absent(final, _ipc(pl.concat([empty(context.schema), *parts], how="vertical")))
        for leftover in (folder / "pending").glob(f"{context.epoch:012d}-*"):
            leftover.unlink(missing_ok=True)

    @staticmethod
    def read(run_dir: Path | str, sink: str) -> pl.DataFrame:
        """All committed rows of ``sink``; columns that came later are null in earlier epochs."""
        return read(run_dir, sink)


class CollectWriter(SinkWriter):
    """Holds the rows and writes them at the end."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._rows: list[pl.DataFrame] = []
        self._path = _folder(context.run_dir, context.sink) / "pending" / fresh_name(context)

    def write(self, df: pl.DataFrame) -> None:
        from penstock.frames.types import conform

        if df.height:
            self._rows.append(conform(df, self._context.schema))

    def close(self) -> str | None:
        import polars as pl

        if not self._rows:
            return None
        write_atomically(self._path, _ipc(pl.concat(self._rows)))
        return self._path.name

    def abort(self) -> None:
        self._rows.clear()
        self._path.unlink(missing_ok=True)


def read(run_dir: Path | str, sink: str) -> pl.DataFrame:
    """All committed rows of a ``Collect`` sink, in the order of epochs."""
    import polars as pl

    files = sorted(_folder(Path(run_dir), sink).glob("*.arrow"))
    return pl.concat([_load(file) for file in files], how="diagonal_relaxed") if files else pl.DataFrame()


def _folder(run_dir: Path, sink: str) -> Path:
    return run_dir / "collect" / file_name(sink)


def _load(path: Path) -> pl.DataFrame:
    import polars as pl

    return pl.read_ipc(path.read_bytes())


def _ipc(df: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    df.write_ipc(buffer)
    return buffer.getvalue()
