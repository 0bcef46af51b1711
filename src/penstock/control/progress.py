"""What a committed epoch did, as frozen values that the terminal, files and tests read alike."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """One node's part in an epoch."""

    node: str
    kind: str
    rows_in: int = 0
    rows_out: int = 0
    busy_ms: float = 0.0
    state_bytes: int = 0
    """Size of the state held by the slices of this node when they last ran."""
    late: int = 0
    """Events behind the punctuation: of a source those that broke its promise, of an operator those that
    it put on its output ``late``."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One committed epoch."""

    epoch: int
    version: int
    events: int
    """Rows read from all sources in this epoch."""
    total_events: int
    """Rows read in this run directory since its first epoch."""
    epoch_ms: float
    at_ns: int
    lag_rows: int | None = None
    lag_bytes: int | None = None
    dead_letters: int = 0
    """Records put aside in this epoch."""
    finished: bool = False
    """Whether every source had ended with this epoch."""
    nodes: tuple[NodeProgress, ...] = field(default=())
    fence: int = 0
    """The number of the fencing token of the runner that committed it."""

    @property
    def late(self) -> int:
        """Events of this epoch that the first operator on event time behind their source put aside."""
        return sum(node.late for node in self.nodes if node.kind == "source")

    @property
    def events_per_s(self) -> float:
        return self.events / self.epoch_ms * 1000 if self.epoch_ms else 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Progress:
        values: dict[str, Any] = json.loads(text)
        nodes = tuple(NodeProgress(**node) for node in values.pop("nodes"))
        return cls(**values, nodes=nodes)
