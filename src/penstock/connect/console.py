"""Results as text beside the run; whoever shows the run prints what is added to the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connect.private import FILE
from penstock.connect.sink import Sink, SinkContext, SinkWriter
from penstock.errors import BadArgument

if TYPE_CHECKING:
    import polars as pl

LOG_NAME = "console.log"
LOG_BYTES = 16 << 20
"""A log that is larger begins anew; the one before it stays."""
_LOOK_BACK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Console(Sink):
    """Show the first ``limit`` rows of each epoch, each epoch once."""

    limit: int = 20

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise BadArgument(where="Console", what="limit", got=repr(self.limit), allowed="at least 1 row")

    def open(self, context: SinkContext) -> ConsoleWriter:
        """Begin to collect the rows to show."""
        return ConsoleWriter(self.limit, context)

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Add the epoch's text to the run's console.log, unless it is there already."""
        rows = sum(count for count, _ in messages)
        if rows:
            parts = [head for _, head in messages if head is not None]
            _append_once(
                context.run_dir / LOG_NAME, _header(context), _block(context, rows, parts, self.limit)
            )

    def describe(self) -> str:
        """One line for people."""
        return f"Console(limit={self.limit})"


class ConsoleWriter(SinkWriter):
    """Counts all rows and keeps the first few."""

    def __init__(self, limit: int, context: SinkContext) -> None:
        self._limit = limit
        self._context = context
        self._rows = 0
        self._heads: list[pl.DataFrame] = []

    def write(self, df: pl.DataFrame) -> None:
        from penstock.frames.types import conform

        if self._rows < self._limit and df.height:
            self._heads.append(conform(df.head(self._limit - self._rows), self._context.schema))
        self._rows += df.height

    def close(self) -> tuple[int, pl.DataFrame | None]:
        import polars as pl

        return self._rows, pl.concat(self._heads) if self._heads else None

    def abort(self) -> None:
        self._heads.clear()
        self._rows = 0


def _header(context: SinkContext) -> str:
    return f"── {context.sink} · epoch {context.epoch} · "


def _block(context: SinkContext, rows: int, parts: Sequence[pl.DataFrame], limit: int) -> str:
    import polars as pl

    shown = pl.concat(parts).head(limit)
    more = f" (first {limit} shown)" if rows > limit else ""
    with pl.Config(
        tbl_rows=limit, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_width_chars=160, fmt_str_lengths=60
    ):
        return f"{_header(context)}{rows} rows{more}\n{shown}\n\n"


def _append_once(log: Path, header: str, block: str) -> None:
    """Add a block, or the rest of it if a process died while it wrote. A log that is large begins anew.

    What is there already is never overwritten: a runner that was replaced may come here late.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_BYTES and not _holds(log, header):
        log.replace(_before(log))
    elif _holds(_before(log), header):  # the log began anew after this block
        return
    handle = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, FILE)
    try:
        size = os.fstat(handle).st_size
        begin = max(0, size - _LOOK_BACK_BYTES)
        tail = os.pread(handle, size - begin, begin)
        place = _torn_or_done(tail, header.encode())
        data = block.encode()
        if place is None:
            os.write(handle, data)
        elif place >= 0:
            torn = tail[place:]
            os.write(handle, data[len(torn) :] if data.startswith(torn) else b"\n\n" + data)
    finally:
        os.close(handle)


def _before(log: Path) -> Path:
    return log.with_name(f"{log.stem}.before{log.suffix}")


def _holds(log: Path, header: str) -> bool:
    """Return whether the end of a log holds a block, or a part of it."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOOK_BACK_BYTES))
            return _torn_or_done(file.read(), header.encode()) is not None
    except FileNotFoundError:
        return False


def _torn_or_done(tail: bytes, header: bytes) -> int | None:
    """Where a torn copy of the block begins; -1 if all of it is there; None if nothing is."""
    found = tail.rfind(header)
    if found >= 0:
        # An empty line ends a block: Polars escapes line breaks inside of values.
        return -1 if b"\n\n" in tail[found:] else found
    for length in range(len(header) - 1, 0, -1):  # blocks end in a line break, so this is half a header
        if tail.endswith(header[:length]):
            return len(tail) - length
    return None
