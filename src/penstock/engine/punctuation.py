"""How far time has come: what each source promises, and what follows from it for each node.

Everything here is part of an epoch's offset, which Spark writes to its log before the epoch runs: an epoch
that is run again has the same punctuations, whatever the clock on the wall says by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.connect.source import END_OF_TIME, Offset, SourcePlanner
from penstock.plan.program import Program


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a source stands at the end of an epoch."""

    promise: int | None
    """The time in µs that nothing behind this place lies before; None: it makes no promise."""
    has_moved: bool
    """Whether the epoch reads anything from it."""
    bound: int | None = None
    """The latest time in µs that an event of the epoch may have, by the clock at its planning; None: any."""
    observed: int | None = None
    """The greatest event time that committed epochs have read from it."""

    @classmethod
    def of(
        cls, planner: SourcePlanner, start: Offset, end: Offset, observed: int | None, bound: int | None
    ) -> Standing:
        """``observed`` is the greatest event time that committed epochs have read."""
        promise = END_OF_TIME if planner.finished(end) else planner.punctuation(end, observed)
        return cls(promise, start != end, bound, observed)


@dataclass(frozen=True, slots=True)
class Punctuations:
    """Times in µs, none of which ever goes back."""

    sources: Mapping[str, int] = field(default_factory=dict)
    """What each source has promised."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """What no source that leads to the node will go behind."""
    quiet_since: Mapping[str, int] = field(default_factory=dict)
    """When each source last gave something, in ns on the wall."""
    bounds: Mapping[str, int] = field(default_factory=dict)
    """The latest time that an event of each source may have in this epoch; events beyond it move no time."""
    observed: Mapping[str, int] = field(default_factory=dict)
    """The greatest event time of each source before this epoch: what rows are late by begins with it."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Punctuations:
        return cls(**values) if values else cls()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def moved_since(self, before: Punctuations) -> dict[str, int]:
        """The nodes whose time has moved on, and how far it has come."""
        return {node: time for node, time in self.nodes.items() if before.nodes.get(node) != time}

    def after(self, program: Program, standings: Mapping[str, Standing], now_ns: int) -> Punctuations:
        """The punctuations of an epoch that ends where the sources stand now."""
        quiet_since = {
            name: now_ns if at.has_moved else self.quiet_since.get(name, now_ns)
            for name, at in standings.items()
        }
        promised = {name: at.promise for name, at in standings.items() if at.promise is not None}
        sources = {name: max(time, self.sources.get(name, time)) for name, time in promised.items()}
        awaited = {name for name in standings if not _is_idle(program, name, now_ns - quiet_since[name])}
        nodes = {}
        for node in program.punctuated:
            reached = _reached(program.sources_of(node.name), sources, awaited)
            known = [time for time in (reached, self.nodes.get(node.name)) if time is not None]
            if known:
                nodes[node.name] = max(known)
        bounds = {name: at.bound for name, at in standings.items() if at.bound is not None}
        observed = {name: at.observed for name, at in standings.items() if at.observed is not None}
        return Punctuations(sources, nodes, quiet_since, bounds, observed)


def _is_idle(program: Program, source: str, quiet_ns: int) -> bool:
    idle_us = program.sources[source].idle_us
    return idle_us is not None and quiet_ns >= idle_us * 1000


def _reached(names: frozenset[str], promised: Mapping[str, int], awaited: set[str]) -> int | None:
    """The time that none of these sources will go behind; None if one of them may go anywhere.

    An idle source holds nobody up: what it gives later may be late. If all are idle, the farthest counts.
    """
    unfinished = {name for name in names if promised.get(name) != END_OF_TIME}
    if not unfinished:
        return END_OF_TIME
    waiting = unfinished & awaited
    if not waiting:
        return max((promised[name] for name in unfinished if name in promised), default=None)
    return min(promised[name] for name in waiting) if waiting <= promised.keys() else None
