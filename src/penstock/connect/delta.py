"""Delta Lake tables, written through delta-rs: the default sink.

Writers put Parquet files into the table's folder; one transaction per epoch names them and carries
the epoch as the version of an application transaction, so a repeated epoch is recognised.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock.connect.sink import Sink, SinkContext, SinkWriter, fresh_name, shown_path
from penstock.errors import BadArgument, SinkRefused, SinkUnavailable

if TYPE_CHECKING:
    import polars as pl
    from deltalake import DeltaTable

_LOG = logging.getLogger("penstock.connect.delta")
_FILE_BYTES = 128 << 20  # a writer begins another file after this much in memory
_TIERS_BYTES = (1 << 20, 12 << 20, 128 << 20)
"""Small files are merged into files of the next of these sizes: a row is rewritten about once for each."""
_ATTEMPTS = 10
# Opening a table reads every commit since the last checkpoint, about a millisecond each.
_TABLE_SETTINGS = {"delta.checkpointInterval": "10"}
# Delta's log holds the partition values, but Polars reads them from the names of the folders.
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_PARTITION_TYPES = frozenset({"string", "bool", "date", "int8", "int16", "int32", "int64"})


@dataclass(frozen=True, slots=True, init=False)
class Delta(Sink):
    """Append rows to the Delta table at ``path``, each epoch exactly once.

    The table is created by the first epoch and gains columns when the stream does. As soon as
    ``compact_every`` small files lie in it they are merged, and files that no version needs for a week
    are deleted (0: never). A table whose columns have other types is refused, which ends the run. What
    Delta cannot hold is widened: unsigned integers to the next signed type (uint64 to decimal), time to
    nanoseconds and duration to microseconds as int64.
    """

    path: str
    partition_by: tuple[str, ...]
    compact_every: int

    def __init__(
        self, path: str | os.PathLike[str], *, partition_by: Sequence[str] = (), compact_every: int = 100
    ) -> None:
        text = os.fspath(path)
        if "://" in text:
            allowed = "a path on a local or mounted file system"
            raise BadArgument(where="Delta", what="path", got=repr(text), allowed=allowed)
        if compact_every < 0:
            allowed = "a number of files, 0 for never"
            raise BadArgument(where="Delta", what="compact_every", got=repr(compact_every), allowed=allowed)
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        object.__setattr__(self, "path", str(Path(text).absolute()))
        object.__setattr__(self, "partition_by", columns)
        object.__setattr__(self, "compact_every", compact_every)

    def open(self, context: SinkContext) -> DeltaWriter:
        """Begin data files that the table does not name yet."""
        self._check_partitions(context)
        return DeltaWriter(Path(self.path), self.partition_by, context)

    @property
    def place(self) -> Path:
        """What a committed epoch leaves."""
        return Path(self.path, "_delta_log")

    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Name the writers' files in one transaction, unless the table already has this epoch."""
        files = [file for message in messages for file in message]
        if self._append(context, files) and self.compact_every:
            self._compact_if_due()

    def compact(self) -> None:
        """Merge small files and delete what no version of the last week needs. Changes no row."""
        self._compact_to(_TIERS_BYTES[-1])

    def _compact_if_due(self) -> None:
        """Merge small files if the table holds many, whichever epochs or runs have written them."""
        from deltalake.exceptions import DeltaError

        try:
            files = _files(_open(self.path))
        except (DeltaError, OSError) as error:
            _LOG.warning("compaction of %s was put off: %s", self.path, error)
            return
        least = 0
        for target in _TIERS_BYTES:
            # Those of more than half the size are not worth another pass: two of them do not fit into one.
            small = files.filter(files["bytes"].is_between(least, target // 2, closed="right"))["folder"]
            least = target // 2
            if small.len() - small.n_unique() + 1 >= self.compact_every:  # each partition keeps one
                self._compact_to(target)
                return

    def _compact_to(self, target: int) -> None:
        from deltalake.exceptions import DeltaError

        try:
            table = _open(self.path)
            table.optimize.compact(target_size=target, max_concurrent_tasks=1)
            table.vacuum(dry_run=False, full=True)
        except (DeltaError, OSError) as error:
            # Another writer may win; the epoch is committed in any case and the next one tries again.
            _LOG.warning("compaction of %s was put off: %s", self.path, error)

    def newest_epoch(self, context: SinkContext) -> int | None:
        """The newest epoch whose rows are in the table."""
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            version: int | None = _open(self.path).transaction_version(context.app_id)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self._unavailable(context, f"cannot be opened as a Delta table ({error})") from error
        return version

    def describe(self) -> str:
        """One line for people."""
        by = f", partition_by={list(self.partition_by)}" if self.partition_by else ""
        return f"Delta({shown_path(self.path)}{by})"

    def _append(self, context: SinkContext, files: Sequence[Mapping[str, Any]]) -> bool:
        """Commit against the newest version until it succeeds or turns out to be done already."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError
        from deltalake.transaction import AddAction

        adds: list[Any] = [
            AddAction(modification_time=int(time.time() * 1000), data_change=True, **f) for f in files
        ]
        marked = CommitProperties(app_transactions=[Transaction(context.app_id, context.epoch)])
        for attempt in range(_ATTEMPTS):
            try:
                table = self._table(context)
                done = table.transaction_version(context.app_id)
                if not adds or (done is not None and done >= context.epoch):
                    return False
                by = list(self.partition_by) or None
                table.create_write_transaction(adds, "append", table.schema(), by, commit_properties=marked)
                return True
            except CommitFailedError as error:
                # Raised for the same application transaction, or other losses of a race: look again.
                if attempt == _ATTEMPTS - 1:
                    raise self._unavailable(context, f"the commit kept failing ({error})") from error
            except DeltaProtocolError as error:
                raise self._refused(
                    context, f"the table needs what this writer cannot do ({error})"
                ) from error
            except (DeltaError, OSError) as error:
                raise self._unavailable(context, f"cannot be written ({error})") from error
        raise AssertionError("unreachable")

    def _table(self, context: SinkContext) -> DeltaTable:
        """The newest version of the table, created or given new columns where necessary."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        from penstock.connect.delta_types import delta_fields

        fields = delta_fields(context.schema)
        try:
            try:
                table = _open(self.path)
            except TableNotFoundError:
                self._check_partitions(context)
                Path(self.path).mkdir(parents=True, exist_ok=True)
                created = _delta_schema(fields)
                by = list(self.partition_by) or None
                DeltaTable.create(
                    self.path, created, mode="ignore", partition_by=by, configuration=_TABLE_SETTINGS
                )
                table = _open(self.path)
        except (DeltaError, OSError) as error:
            raise self._unavailable(context, f"cannot be opened as a Delta table ({error})") from error
        if new := self._new_fields(table, fields, context):
            table.alter.add_columns(new)
            table = _open(self.path)
        return table

    def _new_fields(self, table: DeltaTable, fields: Sequence[Any], context: SinkContext) -> list[Any]:
        known = {field.name: field for field in table.schema().fields}
        for field in fields:
            if field.name in known and known[field.name].type != field.type:
                before, now = _type_words(known[field.name].type), _type_words(field.type)
                raise self._refused(context, f"column '{field.name}' is {before} in the table and {now} now")
        by = tuple(table.metadata().partition_columns)
        if by != self.partition_by:
            what = f"the table is partitioned by {list(by)}, the sink by {list(self.partition_by)}"
            raise self._refused(context, what)
        return [field for field in fields if field.name not in known]

    def _check_partitions(self, context: SinkContext) -> None:
        for name in self.partition_by:
            kind = dict(context.schema.columns).get(name, "missing")
            if kind not in _PARTITION_TYPES:
                allowed = ", ".join(sorted(_PARTITION_TYPES))
                what = f"partition column '{name}'"
                raise BadArgument(where=f"sink '{context.sink}'", what=what, got=kind, allowed=allowed)

    def _refused(self, context: SinkContext, what: str) -> SinkRefused:
        """Return the error for what no waiting mends."""
        step = "write to another path, or make the columns fit in the node before the sink, and run again"
        return SinkRefused(sink=context.sink, what=what, where=self.path, next_step=step)

    def _unavailable(self, context: SinkContext, what: str) -> SinkUnavailable:
        step = "the epoch is repeated for as long as the run has patience; look at the table and its disk"
        return SinkUnavailable(sink=context.sink, what=what, where=self.path, next_step=step)


class DeltaWriter(SinkWriter):
    """Collects rows into few files per task."""

    def __init__(self, folder: Path, partition_by: tuple[str, ...], context: SinkContext) -> None:
        self._folder = folder
        self._partition_by = partition_by
        self._context = context
        self._held: list[pl.DataFrame] = []
        self._held_bytes = 0
        self._files: list[Path] = []
        self._entries: list[dict[str, Any]] = []

    def write(self, df: pl.DataFrame) -> None:
        from penstock.frames.types import conform

        if df.height:
            self._held.append(conform(df, self._context.schema))
            self._held_bytes += int(df.estimated_size())
            if self._held_bytes >= _FILE_BYTES:
                self._flush()

    def close(self) -> list[dict[str, Any]]:
        self._flush()
        return self._entries

    def abort(self) -> None:
        self._held.clear()
        for file in self._files:
            file.unlink(missing_ok=True)
        self._files, self._entries = [], []

    def _flush(self) -> None:
        import polars as pl

        if not self._held:
            return
        rows = pl.concat(self._held)
        self._held, self._held_bytes = [], 0
        if not self._partition_by:
            self._write_file(rows, {})
            return
        parts = rows.partition_by(list(self._partition_by), as_dict=True, maintain_order=True)
        for values, part in parts.items():
            named = dict(zip(self._partition_by, map(_partition_text, values), strict=True))
            self._write_file(part.drop(self._partition_by), named)

    def _write_file(self, rows: pl.DataFrame, partition: Mapping[str, str | None]) -> None:
        from penstock.connect.delta_types import statistics, storable

        folders = [f"{name}={_folder_text(value)}" for name, value in partition.items()]
        file = self._folder.joinpath(*folders, f"{fresh_name(self._context)}.parquet")
        file.parent.mkdir(parents=True, exist_ok=True)
        stored = storable(rows)
        self._files.append(file)  # before the file is there, so that abort() finds also half a file
        stored.write_parquet(file, compression="zstd", compression_level=1)
        path = file.relative_to(self._folder).as_posix()  # delta-rs makes it the URI that the log holds
        entry = {"path": path, "size": file.stat().st_size, "partition_values": dict(partition)}
        self._entries.append({**entry, "stats": statistics(stored)})


def _open(path: str) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(path)


def _files(table: DeltaTable) -> pl.DataFrame:
    """Return the sizes of the files that the table is made of now, and the folders of their partitions."""
    import polars as pl

    actions = pl.DataFrame(table.get_add_actions())
    folder = pl.col("path").str.replace(r"/?[^/]*$", "")
    return actions.select(folder.alias("folder"), pl.col("size_bytes").alias("bytes"))


def _type_words(kind: Any) -> str:
    return str(getattr(kind, "type", kind))


def _delta_schema(fields: Sequence[Any]) -> Any:
    from deltalake import Schema

    return Schema(list(fields))


def _folder_text(value: str | None) -> str:
    return _NULL_FOLDER if value is None else quote(value, safe="")


def _partition_text(value: Any) -> str | None:
    if value is None or value == "":  # Delta's protocol: an empty string is null
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)
