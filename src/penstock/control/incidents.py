"""What went wrong in a run and what was done about it: a log that people read after the night."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from penstock.connect.private import open_private
from penstock.control.line_log import append_line

LOG_BYTES = 4 << 20
"""A log that is larger begins anew; the one before it stays."""
Kind = Literal["death", "code", "away", "final", "handled"]


@dataclass(frozen=True, slots=True)
class Incident:
    """One failure of a run."""

    at_ns: int
    epoch: int
    """The epoch that was not committed because of it; for what is handled, the one that was under way."""
    kind: Kind
    """A process died, the user's code failed, something is away for a while, or nothing can be done.

    What is handled did not end an epoch: a spare process, an executor whose tasks Spark runs elsewhere, or
    records without which an epoch that had killed a worker was committed.
    """
    what: str
    action: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def add_incident(log: Path, incident: Incident) -> None:
    """Append to the log; on disk before this returns. A log that has grown large begins anew."""
    with _locked(log):
        if log.stat().st_size > LOG_BYTES:
            _begin_anew(log)
        append_line(log, incident.to_json().encode(), durably=True)


class IncidentLog:
    """The log of a run, also while its disk is full: what cannot be written yet is kept until it can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: list[Incident] = []

    def read(self, since: int = 0) -> list[Incident]:
        """Return the incidents from a number on, oldest first; the oldest of all may have been dropped."""
        return self.read_on(since)[0]

    def read_on(self, since: int) -> tuple[list[Incident], int]:
        """Return the incidents from a number on, and the number that the next one will have."""
        first, found = _numbered(self._path)
        found += self._kept
        return found[max(0, since - first) :], first + len(found)

    def add(self, incident: Incident) -> None:
        """Append an incident, and what was kept before it."""
        self._kept.append(incident)
        with suppress(OSError):
            while self._kept:
                add_incident(self._path, self._kept[0])
                del self._kept[0]


def read_incidents(log: Path) -> list[Incident]:
    """All incidents, oldest first; a line that a crash has torn is passed over."""
    return _numbered(log)[1]


def _numbered(log: Path) -> tuple[int, list[Incident]]:
    """Return the incidents that are kept, and the number of the first one of them."""
    first, old = _read(_before(log))
    begins, new = _read(log)
    # Without its first line the new log was just begun: it goes on where the old one ends.
    return (begins, new) if begins > first + len(old) else (first, [*old, *new])


def _read(log: Path) -> tuple[int, list[Incident]]:
    try:
        lines = log.read_bytes().splitlines()
    except FileNotFoundError:
        return 0, []
    first, found = 0, []
    for line in lines:
        try:
            values = json.loads(line)
            if "earlier" in values:
                first = int(values["earlier"])
            else:
                found.append(Incident(**values))
        except (ValueError, TypeError):
            continue
    return first, found


def _before(log: Path) -> Path:
    return log.with_name(f"{log.stem}.before{log.suffix}")


def _begin_anew(log: Path) -> None:
    """Put the log aside in place of the one before; the new one says how many incidents came earlier."""
    first, found = _read(log)
    earlier = json.dumps({"earlier": first + len(found)}).encode()
    log.replace(_before(log))
    append_line(log, earlier, durably=True)


@contextmanager
def _locked(log: Path) -> Iterator[None]:
    """Keep other processes from adding to the log, which one of them may put aside."""
    while True:
        with open(log, "ab", opener=open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                if os.fstat(file.fileno()).st_ino == log.stat().st_ino:
                    yield
                    return


def since_progress(incidents: Sequence[Incident]) -> list[Incident]:
    """The newest incidents that hit the same epoch: between them nothing was committed."""
    failures = [incident for incident in incidents if incident.kind != "handled"]
    epoch = failures[-1].epoch if failures else None
    tail: list[Incident] = []
    for incident in reversed(failures):
        if incident.epoch != epoch:
            break
        tail.insert(0, incident)
    return tail
