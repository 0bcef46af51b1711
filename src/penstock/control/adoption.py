"""Make a topology the run's current version when a run starts, unless the current one came from elsewhere.

The run directory says which version runs. A start *proposes* a topology: the first start makes it version 1,
and a later start of the same app applies what was edited since. If somebody else made the current version (a
handle of a running topology, another app), the start leaves it in place and reports the difference.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from penstock.control.changes import ChangePlan, plan_change, require_applicable
from penstock.control.checkpoint import check
from penstock.control.mending import require_no_moves, version_to_change
from penstock.control.rebuilding import prepare, stored_program
from penstock.control.rescale_swap import finish_rescale
from penstock.control.run_directory import Origin, RunDirectory
from penstock.control.source_changes import Decision
from penstock.plan.program import Program
from penstock.topology.graph import Graph


class StartOptions(Protocol):
    """The part of RunOptions that decides about a proposed topology."""

    @property
    def hops(self) -> int | None: ...
    @property
    def allow_state_loss(self) -> bool: ...
    @property
    def apply(self) -> bool: ...
    @property
    def app(self) -> str | None: ...
    @property
    def sources(self) -> Mapping[str, Decision]: ...
    @property
    def take_over(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a start has made of the topology that it proposed."""

    plan: ChangePlan
    """The version that runs from now on, and what it changes."""
    proposed: ChangePlan | None = None
    """What the topology would change, if it was not applied because the version came from elsewhere."""
    origin: Origin | None = None
    """Who made the version that was left in place."""

    def report(self) -> str:
        """Return what a user must know about it; an empty text if nothing has changed."""
        if self.proposed is None:
            changed = self.plan.version > 1 and self.plan
            return f"the topology has changed; {self.plan}" if changed else ""
        made_by = self.origin.made_by if self.origin else "unknown"
        return (
            f"the run goes on with its version {self.plan.version}, made by {made_by}. The topology given at "
            f"this start differs and is not applied; it would be\n{self.proposed}\n"
            "to apply it, start again with --apply (apply=True)"
        )


def adopt(directory: RunDirectory, program: Program, options: StartOptions) -> Adoption:
    """Make a program the current version, or leave the current one. The caller holds the run's lock."""
    app = options.app or this_app()
    with directory.changing():
        current, fabric = directory.current(), directory.fabric()
        hops = fabric["hops"] if fabric else max(program.hops, options.hops or 0)
        if current == 0:
            plan = plan_change(_nothing(program), program, version=directory.next_version(), hops=hops)
            return _applied(directory, plan, app)
        running, origin = stored_program(directory, current, program), directory.origin()
        plan = plan_change(
            running, program, version=directory.next_version(), hops=hops, sources=options.sources
        )
        if not plan:
            if origin is not None and app not in origin.apps:
                directory.make_current(current, replace(origin, apps=(*origin.apps, app)))
            return Adoption(unchanged(directory.load(current), current))
        # What was made before origins were recorded counts as the app's own.
        if origin is not None and app not in origin.apps and not options.apply:
            return Adoption(unchanged(running, current), plan, origin)
        base = version_to_change(directory, current, program)
        if base != current:
            before = stored_program(directory, base, program)
            plan = plan_change(
                before, program, version=directory.next_version(), hops=hops, sources=options.sources
            )
        require_applicable(plan, allow_state_loss=options.allow_state_loss)
        require_no_moves(directory, plan)
        if plan.moved:
            directory.load(base)  # it runs one epoch more, which exports the state that changes its hop
        return _applied(directory, plan, app)


def adopt_at_rest(directory: RunDirectory, program: Program, options: StartOptions) -> Adoption:
    """Adopt a program in a run directory that nobody runs; taking it over if the options say so."""
    directory.open(program.graph.name)
    with directory.lock(take_over=options.take_over):
        prepare(directory, program)
        directory.begin_term()
        finish_rescale(directory)
        check(directory.path)
        return adopt(directory, program, options)


def unchanged(program: Program, version: int) -> ChangePlan:
    """Return the plan that leaves a version as it is."""
    names = tuple(node.name for node in program.graph)
    return ChangePlan(program=program, version=version, kept=names, added=(), swapped=(), removed=(), lost=())


def this_app() -> str:
    """Return what identifies the script that runs: its path, or the folder of an interactive session."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return str(Path(file).resolve()) if file else f"{Path.cwd()} (interactive)"


def _applied(directory: RunDirectory, plan: ChangePlan, app: str) -> Adoption:
    directory.store(plan.version, plan.program)
    directory.make_current(plan.version, Origin(app, time.time_ns(), (app,)))
    return Adoption(plan)


def _nothing(program: Program) -> Program:
    return Program(Graph(program.graph.name), {}, {})
