"""The line between Penstock and the user's code: failures get an address, records can be put aside."""

from __future__ import annotations

import datetime as dt
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from polars.exceptions import PanicException

from penstock.errors import BadEmission, OperatorFailed, PenstockError
from penstock.frames.types import conform
from penstock.operators.event_time import WATERMARK
from penstock.operators.trial import ProcessTrial
from penstock.topology.graph import Node
from penstock.topology.schema import Schema

DEAD_LETTERS = Schema.of(
    {"node": str, "epoch": int, "position": int, "place": str, "raw": bytes, "reason": str}
)
T = TypeVar("T")
_FIRST_DAY, _LAST_DAY = ((day - dt.date(1970, 1, 1)).days for day in (dt.date.min, dt.date.max))


class KilledItsWorker(Exception):
    """The user's code ended the process that it ran in."""


@dataclass(slots=True)
class Boundary:
    """Runs the user's code for one task of one epoch and keeps what went wrong."""

    epoch: int
    failures: Path | None
    """Where a batch that stops the topology is saved; None: nowhere."""
    place: str = ""
    """What tells this task's saved batch from those of others, such as a slice."""
    letters: list[dict[str, Any]] = field(default_factory=list)
    trial: ProcessTrial | None = None
    """Where work is tried before it is done, in an epoch that has killed a worker before."""

    def reject(self, node: str, position: int, place: str, raw: bytes, reason: str) -> None:
        """Put one record aside with the reason."""
        letter = {"node": node, "epoch": self.epoch, "position": position, "place": place}
        self.letters.append({**letter, "raw": raw, "reason": reason})

    def put_aside(self, node: Node, rows: pl.DataFrame, reasons: pl.Series) -> None:
        """Put rows aside that an operator rejected."""
        for row, reason in zip(rows.iter_slices(1), reasons, strict=True):
            self.reject(node.name, -1, str(node.site), as_json(row), reason)

    def run(self, node: Node, batch: pl.DataFrame, work: Callable[[pl.DataFrame], T]) -> list[T]:
        """Do the work on the batch; where the node allows it, on the batch without bad records."""
        try:
            if self.trial is not None and (death := self.trial.death_of(work, batch)):
                raise KilledItsWorker(death)
            return [work(batch)]
        except PenstockError:
            raise
        except Exception as error:
            if node.on_error == "stop":
                raise self.failure(node, batch, error) from error
            return self._without_bad_records(node, batch, work, error)

    def failure(self, node: Node, batch: pl.DataFrame | None, error: BaseException) -> OperatorFailed:
        """The error that stops the topology, with the batch saved for inspection."""
        return OperatorFailed(
            node=node.name,
            site=str(node.site),
            epoch=self.epoch,
            error=f"{type(error).__name__}: {error}",
            saved=self._save(node, batch),
            traceback="".join(traceback.format_exception(error)),
        )

    def _without_bad_records(
        self, node: Node, batch: pl.DataFrame, work: Callable[[pl.DataFrame], T], error: Exception
    ) -> list[T]:
        if batch.height <= 1:
            reason = f"{type(error).__name__}: {error}"
            self.reject(node.name, -1, str(node.site), as_json(batch), reason)
            return []
        middle = batch.height // 2
        return [*self.run(node, batch[:middle], work), *self.run(node, batch[middle:], work)]

    def _save(self, node: Node, batch: pl.DataFrame | None) -> str:
        if batch is None or self.failures is None:
            return "(not saved)"
        path = self.failures / f"{node.name}-epoch-{self.epoch}{self.place}.arrow"
        try:
            self.failures.mkdir(parents=True, exist_ok=True)
            batch.drop(WATERMARK, strict=False).write_ipc(path)
        except OSError as error:  # a full disk must not hide what failed first
            return f"(not saved: {error})"
        return str(path)


def emitted(node: Node, output: str, rows: Any, schema: Schema) -> pl.DataFrame:
    """What the user's code gave, brought to the declared columns."""
    if not isinstance(rows, pl.DataFrame):
        raise BadEmission(
            node=node.name, site=str(node.site), output=output, got=type(rows).__name__, expected=schema
        )
    try:
        return conform(rows, schema)
    except ValueError as error:
        raise BadEmission(
            node=node.name, site=str(node.site), output=output, got=str(error), expected=schema
        ) from error


def as_json(batch: pl.DataFrame) -> bytes:
    """Return the first row as it is shown to people; dates that Python does not have as numbers."""
    first = batch.head(1).drop(WATERMARK, strict=False)
    strange = [column.name for column in first.get_columns() if _is_strange(column)]
    try:
        row = first.with_columns(pl.col(strange).to_physical()).row(0, named=True) if batch.height else {}
    except PanicException:  # Polars panics over such a date inside of a list or struct
        row = {"columns": batch.columns}
    return json.dumps(row, default=str, ensure_ascii=False).encode()


def _is_strange(column: pl.Series) -> bool:
    """Whether a column of one row holds a date outside of the years 1 to 9999."""
    if not isinstance(column.dtype, pl.Datetime | pl.Date) or column.null_count() == len(column):
        return False
    value = int(column.to_physical()[0])
    if isinstance(column.dtype, pl.Date):
        return not _FIRST_DAY <= value <= _LAST_DAY
    per_day = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}[column.dtype.time_unit]
    return not _FIRST_DAY <= value // per_day <= _LAST_DAY
