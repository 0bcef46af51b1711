"""Captures as a source: files, patterns, and directories where files arrive."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from penstock.connect.durations import ahead_of_clock, microseconds
from penstock.connect.file_pieces import Missing
from penstock.connect.sink import shown_path
from penstock.connect.source import AHEAD_US, Batch, Identity, Reject, Source, Split, restore_fields
from penstock.errors import BadArgument
from penstock.net import columns as c
from penstock.net._layout import MOST_TUNNELS
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import polars as pl

    from penstock.net.planner import PcapPlanner

Rows = Literal["packets", "counts"]
Tunnels = Literal["inner", "outer"]


@dataclass(frozen=True, slots=True, init=False)
class Pcap(Source):
    """Read captures: one path, a pattern such as ``traces/*.pcap``, or a directory as files arrive.

    Understands pcap and pcapng, plain or compressed with gzip or zstd, whatever the names are.

    Files are taken in the order of (modification time, name), each packet exactly once. A plain file may
    still be written: it is read up to its last whole record, and on as it grows. Compressed files must be
    complete: write them under a name that begins with "." or ends in ".tmp" and rename. A file that was cut
    short or replaced becomes a bad record. A large plain file is split over tasks at record boundaries.

    Every captured packet becomes a row; what is wrong with one is in its column ``reason`` (a place in
    `penstock.net.REASONS`). Damaged stretches of a file become bad records, and reading goes on behind them.

    ``columns`` chooses columns (see `penstock.net.columns.TYPES`; "packet" holds the bytes);
    ``rows="counts"`` adds the packets up while reading, by protocol and stretch of a file.
    ``tunnels="outer"`` tells of the outermost IP packet and looks into no tunnel. Limits of an
    epoch count what comes out of a compressed file. ``lateness`` is how far times lag behind the greatest one
    seen (in a plain file up to the end of the epoch that is planned), ``ahead`` how far they may be ahead of
    the clock (None: as far as they like): a packet beyond that has no time, has the reason "impossible time"
    unless another is found, and moves no time. ``ends="drained"`` ends the source when
    all files have been read and none has grown since. ``missing`` is as for ``ps.Files``: with "dead-letter"
    a ring of captures may drop files that were not read.
    """

    path: str
    columns: tuple[str, ...]
    rows: Rows
    tunnels: Tunnels
    lateness_us: int
    ends: Literal["never", "drained"]
    missing: Missing = "wait"
    ahead_us: int | None = AHEAD_US

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        rows: Rows = "packets",
        tunnels: Tunnels = "inner",
        lateness: str | timedelta = "1s",
        ends: Literal["never", "drained"] = "never",
        missing: Missing = "wait",
        ahead: str | timedelta | None = "1h",
    ) -> None:
        chosen = c.COUNTS.names if rows == "counts" else tuple(c.DEFAULT if columns is None else columns)
        values = {
            "path": str(Path(path).absolute()),
            "columns": chosen,
            "rows": rows,
            "tunnels": tunnels,
            "lateness_us": microseconds(lateness, where="Pcap", what="lateness"),
            "ends": ends,
            "missing": missing,
            "ahead_us": ahead_of_clock(ahead, where="Pcap"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        choices = {
            "rows": get_args(Rows),
            "tunnels": get_args(Tunnels),
            "ends": ("never", "drained"),
            "missing": get_args(Missing),
        }
        for what, allowed in choices.items():
            if values[what] not in allowed:
                raise _wrong(what, values[what], ", ".join(allowed))
        if rows == "counts" and columns is not None:
            raise _wrong("columns", columns, "none with rows='counts': its columns are fixed")
        unknown = [name for name in chosen if rows != "counts" and name not in c.TYPES]
        if unknown or not chosen or len(set(chosen)) != len(chosen):
            raise _wrong("columns", list(chosen), f"some of {', '.join(c.TYPES)}, each once")

    def at(self, path: str | os.PathLike[str]) -> Pcap:
        """The same source with other files."""
        other = object.__new__(Pcap)
        for field in fields(self):
            object.__setattr__(other, field.name, getattr(self, field.name))
        object.__setattr__(other, "path", str(path))
        return other

    @property
    def schema(self) -> Schema:
        """The chosen columns, or those of counts."""
        return c.COUNTS if self.rows == "counts" else c.schema_of(self.columns)

    @property
    def time(self) -> str | None:
        """The time of capture, unless it was left out."""
        return "time" if "time" in self.columns else None

    @property
    def most_tunnels(self) -> int:
        """How many tunnels a packet is followed through."""
        return MOST_TUNNELS if self.tunnels == "inner" else 0

    @property
    def has_end(self) -> bool:
        """Whether it ends by itself."""
        return self.ends == "drained"

    @property
    def identity(self) -> Identity:
        """Return the path: offsets are places in its files, whatever is read of the packets."""
        return Identity("Pcap", self.path)

    def planner(self, state_dir: Path) -> PcapPlanner:
        """Make the planner; its index of files lies in ``state_dir``."""
        from penstock.net.planner import PcapPlanner

        return PcapPlanner(self, state_dir)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Read the pieces of captures that the planner put together."""
        from penstock.net.reader import read_pieces

        return read_pieces(self, split, reject)

    def undated(self, rows: pl.DataFrame, impossible: pl.Series) -> pl.DataFrame:
        """Return all packets, those with an impossible time without it and with the reason."""
        from penstock.net.decoding import undated

        return undated(rows, impossible)

    __setstate__ = restore_fields

    def describe(self) -> str:
        """One line for people."""
        return f"Pcap({shown_path(self.path)}, {self.rows})"


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="Pcap", what=what, got=repr(got), allowed=allowed)
