"""The contract of a stateful operator."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

    from penstock.topology.schema import Schema

    Watermarks: TypeAlias = npt.NDArray[np.int64] | int
    """A time in µs for each row, or one for all of them."""


class Emit(Protocol):
    """How an operator hands on what it made."""

    def __call__(self, rows: pl.DataFrame) -> None:
        """Emit rows on the main output."""

    def to(self, output: str, rows: pl.DataFrame) -> None:
        """Emit rows on a named output."""

    def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None:
        """Put rows aside as dead letters, each with its reason."""

    def columns(self, output: str = "out") -> Schema:
        """The columns that an output has; none while the plan is finding them."""


class Operator(ABC):
    """Vectorised logic with state of its own in each slice.

    All rows of a key reach the same slice, in order. Within an epoch ``process`` runs first, then
    ``on_punctuation`` if time has moved on. What a method emits and how it changes the state must
    depend on its arguments alone: an epoch may be run again and must then give the same.
    """

    returns: ClassVar[Mapping[str, Any] | None] = None
    """Columns of the main output, if they are always the same."""
    outputs: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Columns of further named outputs; none ({}): what is emitted there when the operator gets no rows."""
    state_version: ClassVar[int] = 1
    """Raise it when the layout of the state changes, and implement ``migrate_state``."""

    def init_state(self) -> Any:
        """The state of a slice that has seen nothing yet.

        A KeyedTable, or a dict of them, is saved by what changed. Anything else that can be
        pickled is saved as a whole when it changed.
        """
        return None

    @abstractmethod
    def process(self, batch: pl.DataFrame, state: Any, emit: Emit) -> Any:
        """Take a batch. Change the state in place, or return a new one."""

    def process_input(self, name: str, batch: pl.DataFrame, state: Any, emit: Emit) -> Any:
        """Take a batch of a named input; an operator with several inputs overrides this."""
        return self.process(batch, state, emit)

    def on_punctuation(self, time: dt.datetime, state: Any, emit: Emit) -> Any:  # noqa: B027 - may be left out
        """No event earlier than ``time`` will come. ``datetime.max``: the input has ended."""

    def is_late(self, name: str, rows: pl.DataFrame, watermarks: Watermarks) -> npt.NDArray[np.bool_]:
        """Return which rows of an input are late: what they would change is over at their watermark.

        The watermark of a row is the time that its source promised, at the row's own position, not to go
        behind. Only for operators on event time that put late rows aside: others leave this method alone,
        and get all rows. Must depend on its arguments alone; ``process`` does not see rows that are late.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say which rows are late")

    def put_aside(self, name: str, rows: pl.DataFrame, emit: Emit) -> None:
        """Take late rows of an input; they change no state."""
        emit.to("late", rows)

    def late_events(self, output: str, rows: pl.DataFrame) -> int:
        """How many late events rows on an output stand for: all of them if its name begins with ``late``."""
        return rows.height if output.startswith("late") else 0

    def export_state(self, state: Any) -> bytes | dict[str, bytes | None]:
        """The whole state as bytes, or the chunks that changed (None: chunk is gone)."""
        raise NotImplementedError

    def import_state(self, blob: Any) -> Any:
        """The state from what ``export_state`` gave: bytes, or all chunks by name."""
        raise NotImplementedError

    def migrate_state(self, blob: Any, from_version: int) -> Any:
        """The state from what an operator with another ``state_version`` exported.

        ``blob`` is what ``import_state`` would get; of KeyedTables their rows as DataFrames; otherwise
        the unpickled state. If ``export_state`` gives chunks, all of them count as changed now.
        """
        raise NotImplementedError(f"no way from state version {from_version} to {self.state_version}")


def overrides(operator: Any, method: str) -> bool:
    """Whether the operator's class replaces a method of ``Operator``."""
    return getattr(type(operator), method, None) is not getattr(Operator, method)
