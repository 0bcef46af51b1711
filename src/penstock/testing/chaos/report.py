"""What came of many schedules: per scenario and check, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from penstock.testing.chaos.trial import Outcome

_FIGURES = ("schedules", "green", "not-fired", "events", "lost", "doubled", "wrong", "worst recovery")


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over schedules."""

    schedules: int = 0
    fired: int = 0
    """Those in which a fault has happened."""
    green: int = 0
    """Those in which all was right, and a fault has happened if one was drawn."""
    not_fired: int = 0
    """Those whose faults have not happened: they have shown nothing."""
    events: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    worst_recovery_s: float = 0.0

    @classmethod
    def of(cls, outcome: Outcome) -> Tally:
        found = outcome.difference
        recovery_s = round(outcome.recovery_s, 2)
        idle = bool(outcome.schedule.faults) and not outcome.fired
        return cls(
            schedules=1,
            fired=int(outcome.fired),
            green=int(not found and not idle),
            not_fired=int(idle),
            events=outcome.events,
            lost=found.lost,
            doubled=found.doubled,
            wrong=found.wrong,
            worst_recovery_s=recovery_s,
        )

    def __add__(self, other: Tally) -> Tally:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Tally(**{**sums, "worst_recovery_s": max(self.worst_recovery_s, other.worst_recovery_s)})

    @property
    def is_red(self) -> bool:
        return bool(self.lost or self.doubled or self.wrong)


@dataclass
class Report:
    """Grows with every schedule."""

    cells: dict[tuple[str, str], Tally] = field(default_factory=dict)
    red: list[Outcome] = field(default_factory=list)
    idle: list[Outcome] = field(default_factory=list)
    """Schedules with faults of which none has happened: they have shown nothing."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Scenarios that cannot run on this machine, and why."""
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        cell = (outcome.schedule.scenario.name, outcome.schedule.check.name)
        self.cells[cell] = self.cells.get(cell, Tally()) + Tally.of(outcome)
        if outcome.difference:
            self.red.append(outcome)
        if outcome.schedule.faults and not outcome.fired:
            self.idle.append(outcome)

    @property
    def total(self) -> Tally:
        return sum(self.cells.values(), Tally())

    def to_json(self) -> dict[str, Any]:
        """Sums, each cell, and how to run again what went wrong."""
        return {
            **asdict(self.total),
            "seconds": round(self.seconds, 1),
            "cells": [
                {"scenario": scenario, "check": check, **asdict(tally)}
                for (scenario, check), tally in sorted(self.cells.items())
            ],
            "red": [_told(outcome) for outcome in self.red],
            "idle": [_replay(outcome) for outcome in self.idle],
            "skipped": self.skipped,
        }

    def table(self) -> str:
        """Scenario × check: how many schedules ran, those gone wrong marked; the sums of each scenario."""
        scenarios = list(dict.fromkeys(scenario for scenario, _ in self.cells))
        checks = sorted({check for _, check in self.cells})
        heads = ["scenario", *checks, *_FIGURES]
        rows = [self._row(scenario, checks) for scenario in scenarios]
        last = ["all", *(_shown(self._sum(check=check)) for check in checks), *_figures(self.total)]
        notes = [f"not run here: {name} ({why})" for name, why in self.skipped.items()]
        notes += [f"no fault happened: {_replay(outcome)}" for outcome in self.idle]
        return "\n".join([*_aligned([heads, *rows, last]), *notes])

    def _row(self, scenario: str, checks: Sequence[str]) -> list[str]:
        cells = [_shown(self.cells.get((scenario, check))) for check in checks]
        return [scenario, *cells, *_figures(self._sum(scenario=scenario))]

    def _sum(self, **wanted: str) -> Tally:
        def fits(cell: tuple[str, str]) -> bool:
            named: Mapping[str, str] = dict(zip(("scenario", "check"), cell, strict=True))
            return all(named[key] == value for key, value in wanted.items())

        return sum((tally for cell, tally in self.cells.items() if fits(cell)), Tally())


def _shown(tally: Tally | None) -> str:
    return "·" if tally is None else f"{tally.schedules}{' RED' * tally.is_red}"


def _figures(tally: Tally) -> list[str]:
    counts = [
        tally.schedules,
        tally.green,
        tally.not_fired,
        tally.events,
        tally.lost,
        tally.doubled,
        tally.wrong,
    ]
    return [*(f"{n:,}" for n in counts), f"{tally.worst_recovery_s:.1f} s"]


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Columns of equal width; heads of narrow columns are written over several lines."""
    rows = [list(row) for row in rows]
    heads = [head.replace("-", "- ").split() for head in rows[0]]
    depth = max(map(len, heads))
    top = [[head[i] if i < len(head) else "" for head in heads] for i in range(depth)]
    every = [*top, *rows[1:]]
    widths = [max(len(row[i]) for row in every) for i in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in every
    ]


def _replay(outcome: Outcome) -> str:
    return f"penstock chaos {outcome.schedule}"


def _told(outcome: Outcome) -> dict[str, Any]:
    return {
        "replay": _replay(outcome),
        "sinks": {name: asdict(found) for name, found in outcome.sinks.items() if found},
        "failures": list(outcome.failures),
        "trouble": outcome.trouble,
        "folder": str(outcome.folder),
    }
