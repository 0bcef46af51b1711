"""Plan what becomes of each source in a change: it continues at its offset, starts anew, or must be decided.

An offset means something only together with the place that it points into. Each source therefore has an
identity (see ``Source.identity``), and each version records, by the source's name, the identity and the
generation of the offsets. A source that starts anew gets a new generation: its own place in the run directory
and no old offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from penstock.connect.source import Identity
from penstock.errors import BadArgument, SourceUndecided
from penstock.plan.program import Lineage, Program

Decision = Literal["continue", "anew"]


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a new version does to each source that the run has had before."""

    lineages: Mapping[str, Lineage] = field(default_factory=dict)
    """Of all sources that the run has or had, as the new version records them."""
    continued: tuple[tuple[str, str], ...] = ()
    """Sources that were changed or come back and go on at their offset, and why."""
    anew: tuple[tuple[str, str], ...] = ()
    """Sources that start anew under an old name, and why."""
    undecided: tuple[tuple[str, str], ...] = ()
    """Sources about which the user must decide, and why."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """Sources that cannot continue, since their offsets are of another kind, and why."""

    def lines(self) -> list[str]:
        """Return a line for each source that is told of."""
        return [
            *(f"  > {name}: continues at its offset ({why})" for name, why in self.continued),
            *(f"  > {name}: starts anew ({why})" for name, why in self.anew),
            *(
                f"  ? {name}: {why}; continue at the old offset, or start anew?"
                for name, why in self.undecided
            ),
            *(f"  ? {name}: {why}; it can only start anew" for name, why in self.unreadable),
        ]


def plan_sources(
    running: Program,
    desired: Program,
    *,
    version: int,
    decisions: Mapping[str, Decision],
    changed: Mapping[str, str],
) -> SourcePlan:
    """Compare the sources of two programs. ``changed`` says which nodes differ in any way."""
    _check_decisions(desired, decisions)
    lineages = dict(_lineages(running))
    found: dict[str, list[tuple[str, str]]] = {"continued": [], "anew": [], "undecided": [], "unreadable": []}
    for name, spec in desired.sources.items():
        before, after = lineages.get(name), spec.source.identity
        if before is None:
            lineages[name] = Lineage(after, 0)
            continue
        what, why = _fate(before.identity, after, decisions.get(name))
        if name not in running.sources:
            why = f"it comes back; {why}" if why else "it comes back"
        lineages[name] = Lineage(after, version if what == "anew" else before.generation)
        if why or what == "anew" or name in changed:
            found[what].append((name, why or "it reads the same as before"))
    return SourcePlan(lineages, **{what: tuple(names) for what, names in found.items()})


def require_decided(plan: SourcePlan, topology: str) -> None:
    """Raise SourceUndecided if the user must decide about a source first."""
    for name, why in plan.unreadable:
        raise SourceUndecided(
            topology=topology, source=name, what=why, allowed="anew", choices=_choices(name, "anew")
        )
    for name, why in plan.undecided:
        choices = " or ".join(_choices(name, choice) for choice in get_args(Decision))
        raise SourceUndecided(
            topology=topology, source=name, what=why, allowed="continue, anew", choices=choices
        )


def _fate(before: Identity, after: Identity, decision: Decision | None) -> tuple[str, str]:
    if decision == "anew":
        return "anew", "as asked for" if before == after else _difference(before, after)
    if before.kind and before.kind != after.kind:
        return "unreadable", _difference(before, after)
    if before == after:
        return "continued", ""
    return "undecided" if decision is None else "continued", _difference(before, after)


def _difference(before: Identity, after: Identity) -> str:
    if not before.kind:
        return f"it was {before.place}, which another Python stored, and reads {after.place} now"
    if before.kind != after.kind:
        return f"its offsets were of kind {before.kind} and are of kind {after.kind} now"
    return f"it read {before.place} and reads {after.place} now"


def _lineages(program: Program) -> dict[str, Lineage]:
    """Return what a program records; versions stored before sources had identities continue generation 0."""
    unrecorded = {
        name: Lineage(spec.source.identity, 0)
        for name, spec in program.sources.items()
        if name not in program.lineages
    }
    return {**program.lineages, **unrecorded}


def _check_decisions(program: Program, decisions: Mapping[str, Any]) -> None:
    for name, decision in decisions.items():
        if name not in program.sources or decision not in get_args(Decision):
            raise BadArgument(
                where=f"a change of '{program.graph.name}'",
                what="what becomes of a source",
                got=f"{name}={decision}",
                allowed=f"NAME=continue or NAME=anew, NAME one of: {', '.join(program.sources)}",
            )


def _choices(name: str, choice: str) -> str:
    return f'--source {name}={choice} (sources={{"{name}": "{choice}"}})'
