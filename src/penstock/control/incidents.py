"""What went wrong in a run and what was done about it: a log that people read after the night."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from penstock.control.line_log import append_line

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
    """Append to the log; on disk before this returns."""
    append_line(log, incident.to_json().encode(), durably=True)


class IncidentLog:
    """The log of a run, also while its disk is full: what cannot be written yet is kept until it can."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: list[Incident] = []

    def read(self) -> list[Incident]:
        """All incidents, oldest first."""
        return [*read_incidents(self._path), *self._kept]

    def add(self, incident: Incident) -> None:
        """Append an incident, and what was kept before it."""
        self._kept.append(incident)
        with suppress(OSError):
            while self._kept:
                add_incident(self._path, self._kept[0])
                del self._kept[0]


def read_incidents(log: Path) -> list[Incident]:
    """All incidents, oldest first; a line that a crash has torn is passed over."""
    try:
        lines = log.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(Incident(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


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
