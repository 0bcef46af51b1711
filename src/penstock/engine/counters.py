"""What each node did, counted where it happens and added up per epoch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

Tally = dict[str, int]


def _tally() -> Tally:
    return {"rows_in": 0, "rows_out": 0, "busy_us": 0, "state_bytes": 0, "late": 0}


@dataclass(slots=True)
class Counters:
    """Figures of the nodes, and the greatest event time seen from each source."""

    nodes: dict[str, Tally] = field(default_factory=lambda: defaultdict(_tally))
    observed: dict[str, int] = field(default_factory=dict)

    def took(self, node: str, rows: int) -> None:
        self.nodes[node]["rows_in"] += rows

    def gave(self, node: str, rows: int) -> None:
        self.nodes[node]["rows_out"] += rows

    def was_busy(self, node: str, seconds: float) -> None:
        self.nodes[node]["busy_us"] += int(seconds * 1e6)

    def holds(self, node: str, state_bytes: int) -> None:
        self.nodes[node]["state_bytes"] += state_bytes

    def was_late(self, node: str, events: int) -> None:
        self.nodes[node]["late"] += events

    def saw(self, source: str, time_us: int) -> None:
        self.observed[source] = max(time_us, self.observed.get(source, time_us))

    def to_json(self) -> bytes:
        return json.dumps({"nodes": self.nodes, "observed": self.observed}).encode()

    def add_json(self, text: bytes) -> None:
        values = json.loads(text)
        for node, tally in values["nodes"].items():
            for name, count in tally.items():
                self.nodes[node][name] += count
        for source, time_us in values["observed"].items():
            self.saw(source, time_us)

    @classmethod
    def merged(cls, texts: Iterable[bytes]) -> Counters:
        total = cls()
        for text in texts:
            total.add_json(text)
        return total
