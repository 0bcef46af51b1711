"""What a supervisor and its driver process tell each other, through files in a folder of their own."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.connect.sink import write_atomically
from penstock.control.restarting import RestartPolicy
from penstock.control.shipping import dumps, loads
from penstock.control.version_record import made_by, runs_here
from penstock.errors import EnvironmentChanged, PenstockError
from penstock.topology.stream import Topology

DRIVER = "penstock.spark.driver"
"""The module that serves a request; named here, so that the control layer need not import Spark."""
GO = "go"
"""A file that lets a driver run the topology; a spare one has to wait for it."""
READY = "ready"
"""A file by which a spare driver says that Spark is up."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, and how."""

    topology: Topology | None
    """What the first start proposes. A driver gets none: it runs what the directory says."""
    directory: Path
    options: Any
    """RunOptions of the Spark layer."""
    policy: RestartPolicy
    standby: bool = False
    """Whether to keep a spare driver ready, which takes over within seconds."""
    old_incidents: int = 0
    """How many incidents were in the log before; their cause may be mended, so they do not count."""

    def write(self, folder: Path) -> None:
        """Leave the request for a driver."""
        rest = pickle.dumps((self.directory, self.options, self.policy, self.standby, self.old_incidents))
        write_atomically(folder / "made_by.json", json.dumps(dict(made_by())).encode())
        if self.topology is not None:
            write_atomically(folder / "topology.pickle", dumps(self.topology))
        write_atomically(folder / "request.pickle", rest)

    @classmethod
    def read(cls, folder: Path) -> Request:
        """The request in a folder. Raises EnvironmentChanged if another environment wrote it."""
        there = json.loads((folder / "made_by.json").read_bytes())
        if not runs_here(there):
            raise _changed(there, "byte code of another Python")
        given = folder / "topology.pickle"
        try:
            topology = loads(given.read_bytes()) if given.exists() else None
            return cls(topology, *pickle.loads((folder / "request.pickle").read_bytes()))
        except Exception as error:
            if there == made_by():
                raise
            raise _changed(there, f"{type(error).__name__}: {error}") from error


def _changed(there: Mapping[str, str], why: str) -> EnvironmentChanged:
    here = made_by()
    differ = [name for name in here if here[name] != there.get(name)]
    return EnvironmentChanged(
        before=", ".join(f"{name} {there.get(name)}" for name in differ),
        now=", ".join(f"{name} {here[name]}" for name in differ),
        why=why,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """How a driver ended: well, or with an error; ``again`` if a new process may do better."""

    error: PenstockError | None = None
    again: bool = False

    @classmethod
    def take(cls, folder: Path) -> Answer | None:
        """The answer in a folder, once; None if the driver died before it could give one."""
        path = folder / "answer.pickle"
        try:
            answer = pickle.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        path.unlink()
        assert isinstance(answer, cls)
        return answer
