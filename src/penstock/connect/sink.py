"""What a sink is: writers on the workers, and one commit per epoch that makes their work visible.

An epoch can run again after a crash at any moment, with new writers. A sink therefore shows nothing
before its commit, and a commit of an epoch that it already holds changes nothing.
"""

from __future__ import annotations

import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from penstock.connect.private import open_private
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import polars as pl

_COPIED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Which sink, in which run and epoch. ``attempt`` differs whenever a task is tried again."""

    sink: str
    epoch: int
    run_id: str
    attempt: str
    run_dir: Path
    schema: Schema

    @property
    def app_id(self) -> str:
        """The name under which a shared store remembers which epochs it has."""
        return f"{self.run_id}/{self.sink}"


class SinkWriter(ABC):
    """Takes the rows of one task. Nothing it writes is visible before the sink's commit."""

    @abstractmethod
    def write(self, df: pl.DataFrame) -> None:
        """Take rows, in order."""

    @abstractmethod
    def close(self) -> Any:
        """Finish; the picklable answer goes to the commit."""

    @abstractmethod
    def abort(self) -> None:
        """Throw away what was written. Safe to call at any time, also twice."""


class Sink(ABC):
    """An output that is idempotent by epoch, as a frozen value that can be shipped to the workers."""

    __slots__ = ()

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """Begin to write one task's share of an epoch."""

    @abstractmethod
    def commit(self, context: SinkContext, messages: Sequence[Any]) -> None:
        """Make an epoch visible, once all its writers have closed; ``messages`` are their answers.

        May run again for the same epoch after a crash at any moment and then changes nothing.
        """

    @property
    def place(self) -> Path | None:
        """A file or folder that is there from the first committed epoch on; None if there is none."""
        return None

    def newest_epoch(self, context: SinkContext) -> int | None:
        """The newest epoch that the sink holds of this run; None if it has none or cannot tell."""
        return None

    def describe(self) -> str:
        """One line for people."""
        return type(self).__name__


def file_name(text: str) -> str:
    """A name that is safe as one part of a path, different for different texts."""
    return quote(text, safe=" +=@,").replace("~", "%7E").replace(".", "%2E")


def fresh_name(context: SinkContext) -> str:
    """A file name that no other writer uses, sorted by epoch."""
    return f"{context.epoch:012d}-{uuid.uuid4().hex}"


def shown_path(path: str) -> str:
    """A path for people: short when it lies below the working directory."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def join_atomically(path: Path, parts: Sequence[Path], *, private: bool = True) -> None:
    """Put the contents of other files at ``path``, one after the other, as `write_atomically` does."""
    with atomic_file(path, private=private) as file:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, file, _COPIED_BYTES)


def join_if_absent(path: Path, parts: Sequence[Path], *, private: bool = True) -> bool:
    """Put the contents of other files at ``path``, as `put_if_absent` does."""
    scratch = _scratch(path)
    try:
        join_atomically(scratch, parts, private=private)
        return _link_if_absent(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def put_if_absent(path: Path, data: bytes, *, private: bool = True) -> bool:
    """Put ``data`` at ``path``, entirely, unless a file is there. Return whether it was put.

    Of two processes that race, the first one's file stays: a commit that was held up changes nothing.
    """
    scratch = _scratch(path)
    try:
        write_atomically(scratch, data, private=private)
        return _link_if_absent(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _link_if_absent(file: Path, path: Path) -> bool:
    try:
        os.link(file, path)
    except FileExistsError:
        return False
    return True


def _scratch(path: Path) -> Path:
    """Return a name beside a path that no other process uses."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


def write_atomically(path: Path, data: bytes, *, private: bool = True) -> None:
    """Put ``data`` at ``path``, entirely or not at all, whatever process dies when."""
    with atomic_file(path, private=private) as file:
        file.write(data)


@contextmanager
def atomic_file(path: Path, *, private: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that appears at ``path`` when the body has ended without an error, and not before.

    A private file is its owner's alone; another one gets what the umask allows, as the tables of sinks do.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = _scratch(path)
    try:
        with open(scratch, "wb", opener=open_private if private else None) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
