"""Files that arrive in a directory, each taken exactly once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from penstock.connect.csv_options import Csv
from penstock.connect.durations import ahead_of_clock, microseconds
from penstock.connect.file_pieces import Missing
from penstock.connect.sink import shown_path
from penstock.connect.source import AHEAD_US, Batch, Identity, Reject, Source, Split, restore_fields
from penstock.errors import BadArgument
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    from penstock.connect.file_planner import FilesPlanner

Format = Literal["jsonl", "csv", "parquet", "text", "access-log"]
Compression = Literal["infer", "none", "gzip", "zstd", "bz2"]
_TEXT = Schema((("line", "string"),))
_TEXTS = ("host", "user", "method", "path", "query", "protocol", "referrer", "agent", "cookie")
ACCESS_LOG = Schema(
    (("time", "timestamp"), ("status", "int32"), ("bytes", "int64"), *((name, "string") for name in _TEXTS))
)
"""The columns of an access log."""
_MORE = (("visitor", "uint64"),)


@dataclass(frozen=True, slots=True, init=False)
class Files(Source):
    """Read the files of a directory, a pattern such as ``logs/*.csv`` or one path, as they arrive.

    Files are taken whole, in the order of (modification time, name), each exactly once. Names that
    begin with "." or "_" or end in ".tmp" or ".part" are being written and left alone, as are empty
    files: write under such a name and rename. If a taken file grows or is replaced, that is reported
    as a bad record and never read again; a copy, with the same size, beginning and end, is the same file.
    Lines that cannot be parsed become bad records.

    ``format="text"`` gives one column "line"; ``"access-log"`` those of ``ACCESS_LOG``, or the ones that
    ``schema`` names (see ``AccessLogLines``). ``lateness`` is how far event times lag behind the
    greatest one seen, ``ahead`` how far they may be ahead of the clock (None: as far as they like); lines
    beyond that become dead letters and move no time. ``ends="drained"`` ends the source when all files have
    been read. Limits of an epoch count what comes out of a compressed file: a large one is read over several
    epochs. A record of more than 16 MiB becomes a bad record, of which the beginning is kept.

    A file that is gone before it was read makes the source unavailable, so a run waits for it: its disk may
    come back. With ``missing="dead-letter"`` it becomes one bad record, however much was in it.
    """

    path: str
    format: Format
    schema: Schema
    time: str | None
    lateness_us: int
    compression: Compression
    csv: Csv
    ends: Literal["never", "drained"]
    missing: Missing = "wait"
    ahead_us: int | None = AHEAD_US

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: Format,
        schema: Schema | Mapping[str, Any] | None = None,
        time: str | None = None,
        lateness: str | timedelta = "0s",
        compression: Compression = "infer",
        csv: Csv | None = None,
        ends: Literal["never", "drained"] = "never",
        missing: Missing = "wait",
        ahead: str | timedelta | None = "1h",
    ) -> None:
        values = {
            "path": str(Path(path).absolute()),
            "format": format,
            "schema": _columns(format, schema),
            "time": time,
            "lateness_us": microseconds(lateness, where="Files", what="lateness"),
            "compression": compression,
            "csv": csv or Csv(),
            "ends": ends,
            "missing": missing,
            "ahead_us": ahead_of_clock(ahead, where="Files"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file names its columns."""
        return self.format == "csv" and self.csv.header == "first-line"

    @property
    def has_end(self) -> bool:
        """Whether it ends by itself."""
        return self.ends == "drained"

    @property
    def identity(self) -> Identity:
        """Return the path: offsets are places in its files, in rows of Parquet or in bytes."""
        packed = "" if self.compression == "infer" else f" ({self.compression})"
        unit = "rows" if self.format == "parquet" else "bytes"
        return Identity(f"Files in {unit}", f"{self.path}{packed}")

    def planner(self, state_dir: Path) -> FilesPlanner:
        """Make the planner; its index of files lies in ``state_dir``."""
        from penstock.connect.file_planner import FilesPlanner

        return FilesPlanner(self, state_dir)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Read the pieces of files that the planner put together."""
        from penstock.connect.file_reader import read_pieces

        return read_pieces(self, split, reject)

    __setstate__ = restore_fields

    def describe(self) -> str:
        """One line for people."""
        return f"Files({shown_path(self.path)}, {self.format})"

    def _check(self) -> None:
        for what, choices in (
            ("compression", get_args(Compression)),
            ("ends", ("never", "drained")),
            ("missing", get_args(Missing)),
        ):
            if getattr(self, what) not in choices:
                raise _wrong(what, getattr(self, what), ", ".join(choices))
        if self.time is not None and self.time not in self.schema:
            raise _wrong("time", self.time, f"None or one of {', '.join(self.schema.names)}")
        for name, kind in self.schema.columns:
            if _unreadable(self.format, kind):
                allowed = "types that the format can hold; read it as string and convert it in a map"
                raise _wrong(f"column '{name}' of {self.format}", kind, allowed)


def _columns(format: str, schema: Schema | Mapping[str, Any] | None) -> Schema:
    if format not in get_args(Format):
        raise _wrong("format", format, ", ".join(get_args(Format)))
    if format == "text":
        if schema is not None and Schema.of(schema) != _TEXT:
            raise _wrong("schema", str(Schema.of(schema)), "none for text: it has one column, line: string")
        return _TEXT
    if format == "access-log":
        wanted = ACCESS_LOG if schema is None else Schema.of(schema)
        known = Schema((*ACCESS_LOG.columns, *_MORE))
        if not wanted.names or not set(wanted.columns) <= set(known.columns):
            raise _wrong("schema", str(wanted), f"some of ({known})")
        return wanted
    if schema is None or not len(Schema.of(schema)):
        raise _wrong("schema", schema, "the columns to read, e.g. {'user': str, 'clicks': int}")
    return Schema.of(schema)


def _unreadable(format: str, kind: str) -> bool:
    nested = kind.startswith(("list<", "struct<"))
    if format == "csv":
        return nested
    temporal = ("timestamp", "date", "time", "duration", "binary")
    return format == "jsonl" and nested and any(part in kind for part in temporal)


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="Files", what=what, got=repr(got), allowed=allowed)
