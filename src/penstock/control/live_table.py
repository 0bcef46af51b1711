"""A table of results that is watched while it is written: the newest row of each key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from penstock.connect.delta import Delta
from penstock.errors import BadArgument
from penstock.topology.specs import SinkSpec

if TYPE_CHECKING:
    import polars as pl

    from penstock.topology.stream import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTable:
    """What the live view shows of a run's results, declared in a module as ``LIVE``.

    ``sink`` names a node that writes to Delta. Its last row for each ``key`` counts; the ``top`` rows by
    ``order_by`` (largest first) are shown, with a percentage of the whole beside the columns in ``shares``.
    A row with nothing in a column of ``needs`` says that its key holds no more, and is left out.
    """

    title: str
    sink: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    order_by: str
    top: int = 12
    shares: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def follow(self, topology: Topology) -> Followed:
        """Watch the sink of a topology."""
        node = next((node for node in topology.graph if node.name == self.sink), None)
        sink = node.spec.sink if node is not None and isinstance(node.spec, SinkSpec) else None
        if not isinstance(sink, Delta):
            raise BadArgument(
                where=f"LIVE of '{topology.name}'",
                what="sink",
                got=repr(self.sink),
                allowed="the name of a node that writes to Delta",
            )
        return Followed(self, Path(sink.path))


@dataclass(frozen=True, slots=True)
class Shown:
    """Rows to draw: values by column, and of some columns the part of the whole."""

    table: LiveTable
    rows: Sequence[dict[str, Any]]
    keys: int
    """How many there are; the rows are the first of them."""


class Followed:
    """Reads what commits have added to a Delta table since the last look.

    It reads the log itself: opening a table costs more than an epoch of a small topology may.
    Compactions change no rows and are passed over.
    """

    def __init__(self, table: LiveTable, folder: Path) -> None:
        self.table = table
        self._folder = folder
        self._version: int | None = None
        self._newest: pl.DataFrame | None = None

    def look(self) -> Shown | None:
        """The table as it is now; nothing while it has no rows."""
        import polars as pl

        if added := list(self._added()):
            frames = [self._newest, *added] if self._newest is not None else added
            key = list(self.table.key)
            self._newest = pl.concat(frames, how="diagonal_relaxed").unique(
                key, keep="last", maintain_order=True
            )
        if self._newest is None:
            return None
        named = self.table
        newest = self._newest.drop_nulls(list(named.needs)) if named.needs else self._newest
        parts = [(pl.col(name) / pl.col(name).sum()).alias(share_of(name)) for name in named.shares]
        first = (
            newest.with_columns(parts).sort(named.order_by, descending=True, nulls_last=True).head(named.top)
        )
        return Shown(named, first.rows(named=True), newest.height)

    def _added(self) -> Iterator[pl.DataFrame]:
        import polars as pl

        log = self._folder / "_delta_log"
        if self._version is None:
            self._version = min(
                (int(path.stem) for path in log.glob("*.json") if path.stem.isdigit()), default=0
            )
            if self._version > 0:  # older commits were cleaned up: the first one that is left stands for them
                yield pl.read_delta(str(self._folder), version=self._version)
                self._version += 1
        while (commit := log / f"{self._version:020}.json").exists():
            for line in commit.read_text().splitlines():
                added = json.loads(line).get("add")
                if added is not None and added["dataChange"]:
                    yield pl.read_parquet(self._folder / unquote(added["path"]), hive_partitioning=True)
            self._version += 1


def share_of(column: str) -> str:
    """The name under which a row holds a column's part of the whole."""
    return f"{column} %"
