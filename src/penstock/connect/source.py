"""What a source is: a planner that cuts an endless input into epochs, and readers that fetch the pieces.

A planner works in offsets (small JSON values), readers work in splits (JSON, made by the planner).
Whatever lies between two offsets must be the same rows whenever and however often it is read: that is
what makes an epoch repeatable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from penstock.topology.fingerprint import fingerprint
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

Offset: TypeAlias = dict[str, Any]

BATCH_ROWS = 1 << 20
BATCH_BYTES = 64 << 20
# The last microsecond that Python's datetime can hold: the punctuation of a source that has ended.
END_OF_TIME = 253_402_300_799_999_999
EARLIEST = -62_135_596_800_000_000
LATEST = 253_370_764_799_999_999
"""What lies outside of the years 1 to 9998 is no time: datetime has no years before, and the windows of an
event in the year 9999 would not end before the end of time."""
# Kafka 4.0 refuses what is further ahead than this (log.message.timestamp.after.max.ms, KIP-1030).
AHEAD_US = 3_600_000_000
"""How far events may be ahead of the clock unless a source says otherwise."""


class Identity(NamedTuple):
    """What the offsets of a source refer to."""

    kind: str
    """How offsets are written: a source reads only offsets of its own kind."""
    place: str
    """Where they point into, in words: equal if and only if an offset means the same records."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one epoch may take. ``None`` means as much as there is."""

    rows: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads. ``position`` orders the splits of a source within an epoch."""

    position: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that lie together.

    ``position`` is the place of the first row: within an epoch it ascends in the source's own order, and
    it never depends on how the input was cut into splits.
    """

    position: int
    rows: pl.DataFrame


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that could not be read, where it was, and why."""

    position: int
    where: str
    raw: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is waiting behind an offset, as far as it is known without reading it."""

    rows: int | None = None
    bytes: int | None = None


Reject: TypeAlias = Callable[[BadRecord], None]


class SourcePlanner(ABC):
    """Decides what each epoch takes. Lives in one process next to Spark's driver and may cache."""

    foresees = False
    """Whether an epoch may be planned while the one before it runs, and read in advance then.

    For that, answers must depend on offsets alone and not on which epoch was asked for last.
    """

    @abstractmethod
    def initial(self) -> Offset:
        """The offset before the first record. The same at every call."""

    @abstractmethod
    def latest(self, start: Offset, limit: Limit) -> Offset:
        """The end of an epoch that begins at ``start``; equal to ``start`` when there is nothing new.

        Takes at most ``limit``, but at least one record if there is one.
        """

    @abstractmethod
    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Cut ``start`` to ``end`` into at most ``parallelism`` splits, positions ascending.

        A pure function of its arguments and of data that does not change.
        """

    def commit(self, end: Offset) -> None:  # noqa: B027 - most sources have nothing to trim
        """Learn that nothing before ``end`` will be read again."""

    def backlog(self, offset: Offset) -> Backlog:
        """How much waits behind ``offset``."""
        return Backlog()

    def punctuation(self, offset: Offset, observed: int | None) -> int | None:
        """The time in µs that no event behind ``offset`` lies before, or None when nothing is known.

        ``observed`` is the greatest event time of all committed epochs, impossible times left out.
        """
        return None

    def finished(self, offset: Offset) -> bool:
        """Whether the source is bounded and ``offset`` is its end."""
        return False


class Source(ABC):
    """A replayable input, as a frozen value that can be shipped to the workers."""

    __slots__ = ()

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The columns of every batch."""

    @property
    @abstractmethod
    def time(self) -> str | None:
        """The column that holds the event time, if any."""

    @property
    def identity(self) -> Identity:
        """Return what decides whether another source under the same name may go on at this one's offset.

        Unless it is overridden, the kind is the class, and the place is a fingerprint of its fields. A
        dataclass marks a field that does not matter: ``field(metadata={"identity": False})``.
        """
        cls = type(self)
        return Identity(cls.__qualname__, f"{cls.__qualname__} {fingerprint(_place(self))}")

    @property
    def lateness_us(self) -> int | None:
        """How far event times may lag behind the greatest one before them; None: nothing is known of that.

        With it, and with rows whose order is fixed, whether an event is late depends on its position alone.
        """
        return None

    @property
    def ahead_us(self) -> int | None:
        """How far an event may be ahead of the clock; None: as far as it likes.

        The clock is the one on the wall when the event's epoch is planned, and is kept in the epoch's offset.
        """
        return AHEAD_US

    @property
    def has_end(self) -> bool:
        """Whether it ends by itself, at a place that its planner knows as ``finished``."""
        return False

    @abstractmethod
    def planner(self, state_dir: Path) -> SourcePlanner:
        """Make the planner. What it must remember beside offsets it keeps in ``state_dir``."""

    @abstractmethod
    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Read a split in order, in batches of about a million rows or 64 MiB at most.

        Records that cannot be read go to ``reject``; they never end the stream.
        """

    @property
    def knows_watermarks(self) -> bool:
        """Whether ``watermarks`` answers."""
        return False

    def watermarks(self, position: int, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
        """Return for each row of a batch the time that no row from it on lies before, if that is exact.

        None (the default): it is the greatest time of the rows before, less ``lateness_us``. A lower time
        will do for a row that does not lie before its own.
        """
        return None

    def undated(self, rows: pl.DataFrame, impossible: pl.Series) -> pl.DataFrame | None:
        """Return the rows without the times that are impossible; None: these rows become dead letters.

        A time is impossible if it is too far ahead of the clock or outside of the years 1 to 9998.
        """
        return None

    def attend(self, state_dir: Path) -> AbstractContextManager[Any]:
        """What must go on beside the run in the process that the user started: only it has standard input."""
        return nullcontext()

    def describe(self) -> str:
        """One line for people."""
        return type(self).__name__


def _place(source: Source) -> Any:
    if not is_dataclass(source):
        return source
    counted = [field for field in fields(source) if field.metadata.get("identity", True)]
    return [(field.name, getattr(source, field.name)) for field in counted]


def bound_of(source: Source, clock_ns: int) -> int | None:
    """Return the latest time in µs that an event may have by a clock; None: any.

    A source's planner is asked for the end of an epoch before the clock is read, so an event that was there
    by then and has the time of its making is never beyond the bound.
    """
    if source.ahead_us is None or source.time is None:
        return None
    return min(clock_ns // 1000 + source.ahead_us, LATEST)


def restore_fields(source: Any, stored: list[Any]) -> None:
    """The ``__setstate__`` of a source that got another field: versions stored before have its default.

    New fields come last, and have one.
    """
    found = dict(zip((field.name for field in fields(source)), stored, strict=False))
    for field in fields(source):
        object.__setattr__(source, field.name, found.get(field.name, field.default))
