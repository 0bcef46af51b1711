"""Lines from standard input, kept on disk before they are read, so that every epoch can be repeated."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from penstock.connect.files import Files
from penstock.connect.source import Batch, Identity, Reject, Source, SourcePlanner, Split
from penstock.errors import BadArgument
from penstock.topology.schema import Schema

LineFormat = Literal["text", "jsonl", "access-log"]


@dataclass(frozen=True, slots=True, init=False)
class Stdin(Source):
    """Read what is piped into the program: ``tail -F log | penstock run app.py``.

    The bytes go into a spool in the run directory before anything else sees them (see ``connect.spool``);
    what every epoch has read is deleted. The end of the input ends the source. A run that was killed goes on
    with what is in the spool and then with the input that it is given: a pipe that others keep open, as
    httpd does for its logs, loses nothing in between. ``format``, ``schema``, ``time``, ``lateness`` and
    ``ahead`` are those of ``Files``.
    """

    lines: Files

    def __init__(
        self,
        *,
        format: LineFormat,
        schema: Schema | Mapping[str, Any] | None = None,
        time: str | None = None,
        lateness: str | timedelta = "0s",
        ahead: str | timedelta | None = "1h",
    ) -> None:
        if format not in get_args(LineFormat):
            allowed = ", ".join(get_args(LineFormat))
            raise BadArgument(where="Stdin", what="format", got=repr(format), allowed=allowed)
        times: dict[str, Any] = {"time": time, "lateness": lateness, "ahead": ahead}
        lines = Files("stdin", format=format, schema=schema, compression="none", **times)
        object.__setattr__(self, "lines", lines)

    @property
    def schema(self) -> Schema:
        """The columns of every batch."""
        return self.lines.schema

    @property
    def time(self) -> str | None:
        """The column that holds the event time, if any."""
        return self.lines.time

    @property
    def lateness_us(self) -> int:
        """How far times may lag behind the greatest one before them."""
        return self.lines.lateness_us

    @property
    def ahead_us(self) -> int | None:
        """How far events may be ahead of the clock."""
        return self.lines.ahead_us

    @property
    def has_end(self) -> bool:
        """Whether it ends by itself."""
        return True

    @property
    def identity(self) -> Identity:
        """Return standard input: there is only one, whatever its lines are read as."""
        return Identity("Stdin", "standard input")

    def attend(self, state_dir: Path) -> AbstractContextManager[Any]:
        """Fill the spool from this process's standard input for as long as the topology runs."""
        from penstock.connect.spool import Spooler

        return Spooler(state_dir, sys.__stdin__.fileno() if sys.__stdin__ else -1)

    def planner(self, state_dir: Path) -> SourcePlanner:
        """Make the planner; the spool lies in ``state_dir``."""
        from penstock.connect.spool_planner import SpoolPlanner

        return SpoolPlanner(self.lines, state_dir)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Read pieces of the spool."""
        from penstock.connect.file_reader import read_pieces

        return read_pieces(self.lines, split, reject)

    def describe(self) -> str:
        """One line for people."""
        return f"Stdin({self.lines.format})"
