"""What went wrong in a run and what was done about it: a log that people read after the night."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["death", "code", "away", "final"]


@dataclass(frozen=True, slots=True)
class Incident:
    """One failure of a run."""

    at_ns: int
    epoch: int
    """The epoch that was not committed because of it."""
    kind: Kind
    """A process died, the user's code failed, something is away for a while, or nothing can be done."""
    what: str
    action: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def add_incident(log: Path, incident: Incident) -> None:
    """Append to the log, in one write and on disk before this returns."""
    with open(log, "ab") as file:
        file.write(incident.to_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


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
    epoch = incidents[-1].epoch if incidents else None
    tail: list[Incident] = []
    for incident in reversed(incidents):
        if incident.epoch != epoch:
            break
        tail.insert(0, incident)
    return tail
