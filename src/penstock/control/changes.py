"""Plan a change of a running topology: what is kept, added, swapped and lost. Pure and printable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.control.moves import moves_between
from penstock.control.source_changes import Decision, SourcePlan, plan_sources, require_decided
from penstock.errors import BadChange
from penstock.operators.operator import overrides
from penstock.plan.placing import keep_hops
from penstock.plan.program import Program
from penstock.topology import specs
from penstock.topology.describe import diff
from penstock.topology.fingerprint import fingerprint
from penstock.topology.graph import Node
from penstock.topology.routes import Broadcast, Shuffle


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What a new version does to each node. Print it before you apply it."""

    program: Program
    """The new version, with the birth of each node's state."""
    version: int
    kept: tuple[str, ...]
    added: tuple[str, ...]
    swapped: tuple[tuple[str, str], ...]
    """Nodes whose logic, inputs or parameters change while their state stays."""
    removed: tuple[str, ...]
    lost: tuple[tuple[str, str], ...]
    """Nodes whose state is lost, and why."""
    moved: tuple[tuple[str, int, int], ...] = ()
    """Nodes that keep their state but change their hop, with the old and the new one."""
    refused: str | None = None
    """Why the change cannot be made while the topology runs, if so."""
    sources: SourcePlan = field(default_factory=SourcePlan)
    """What becomes of the sources that the run has had before."""

    def __bool__(self) -> bool:
        changed = self.added or self.swapped or self.removed or self.lost or self.moved
        return bool(changed or self.sources.anew)

    def __str__(self) -> str:
        counts = [
            f"keep {len(self.kept)}",
            f"add {len(self.added)}" if self.added else "",
            f"swap {len(self.swapped)} (state kept)" if self.swapped else "",
            f"move {len(self.moved)} (state kept)" if self.moved else "",
            f"remove {len(self.removed)}" if self.removed else "",
            f"state LOST: {len(self.lost)}" if self.lost else "",
        ]
        lines = [f"version {self.version}: " + ", ".join(c for c in counts if c)]
        lines += [f"  + {name}" for name in self.added]
        lines += [f"  ~ {name}: {what}" for name, what in self.swapped]
        lines += [f"  > {name}: state moves from hop {old} to hop {new}" for name, old, new in self.moved]
        lines += [f"  - {name}" for name in self.removed]
        lines += [f"  ! {name}: state LOST ({why})" for name, why in self.lost]
        if any(name not in self.removed for name, _ in self.lost):
            lines.append(
                "    to keep a copy of this state, take a savepoint first: penstock savepoint create"
            )
        lines += self.sources.lines()
        return "\n".join([*lines, *([f"  refused: {self.refused}"] if self.refused else [])])


def plan_change(
    running: Program,
    desired: Program,
    *,
    version: int,
    hops: int | None = None,
    sources: Mapping[str, Decision] | None = None,
) -> ChangePlan:
    """Compare two programs and say, node by node, what happens to the state.

    ``hops`` is the number of exchanges in the running fabric; ``sources`` decides about changed sources. The
    plan's program has each node in the hop that it has now, where the order of the graph allows that.
    """
    hops = max(running.hops, 0) if hops is None else hops
    refused = _refusal(running, desired, hops)
    if refused is None:
        desired = keep_hops(desired, running, hops)
        refused = _native_out_of_place(running, desired)
    difference = diff(running.graph, desired.graph)
    changed = dict(difference.changed)
    lost = {n.name: why for n in running.hosted.values() if (why := _state_loss(running, desired, n))}
    born = {
        name: version if name not in running.hosted or name in lost else running.born.get(name, 0)
        for name in desired.hosted
    }
    fed = plan_sources(running, desired, version=version, decisions=sources or {}, changed=changed)
    program = replace(desired, born=born, lineages=fed.lineages)
    moves = moves_between(running, program)
    return ChangePlan(
        program=program,
        version=version,
        kept=tuple(n.name for n in desired.graph if n.name in running.graph.nodes and n.name not in changed),
        added=difference.added,
        swapped=tuple((name, what) for name, what in changed.items() if name not in lost),
        removed=difference.removed,
        lost=tuple(lost.items()),
        moved=tuple((name, running.depth[name], program.depth[name]) for name in moves.moved),
        refused=refused,
        sources=fed,
    )


def require_applicable(plan: ChangePlan, *, allow_state_loss: bool) -> None:
    """Raise BadChange unless the plan can be applied to the running topology."""
    if plan.refused is not None:
        raise BadChange(
            topology=plan.program.graph.name,
            reason=plan.refused,
            next_step="stop it and start the new topology in another directory",
        )
    require_decided(plan.sources, plan.program.graph.name)
    unasked = [(name, why) for name, why in plan.lost if name not in plan.removed]
    if unasked and not allow_state_loss:
        raise BadChange(
            topology=plan.program.graph.name,
            reason="state would be lost: " + "; ".join(f"{name} ({why})" for name, why in unasked),
            next_step="keep these nodes as they are, or allow it (allow_state_loss=True, --allow-state-loss)",
        )


def _refusal(running: Program, desired: Program, hops: int) -> str | None:
    if running.graph.name != desired.graph.name:
        return f"it is named '{running.graph.name}' and the new one '{desired.graph.name}'"
    if desired.hops > hops:
        return (
            f"the new topology needs {desired.hops} exchanges and the running fabric has {hops} "
            f"(reserve spare ones at the start with hops={desired.hops})"
        )
    old, new = ({n.name: n for n in p.natives} for p in (running, desired))
    if old.keys() != new.keys() or any(not old[name].same_as(new[name]) for name in new):
        return "the Spark DataFrame nodes differ, and they are part of Spark's plan"
    return None


def _native_out_of_place(running: Program, placed: Program) -> str | None:
    """Return why a Spark DataFrame cannot stay behind the hop that Spark's plan has it behind."""
    for node in placed.natives:
        if placed.depth[node.name] != running.depth[node.name]:
            return (
                f"the Spark DataFrame '{node.name}' would stand behind hop {placed.depth[node.name]} "
                f"instead of {running.depth[node.name]}, and it is part of Spark's plan"
            )
    return None


def _state_loss(running: Program, desired: Program, node: Node) -> str | None:
    """Why a node's state cannot be kept, if so."""
    if not isinstance(node.spec, specs.ProcessSpec):
        return None
    new = desired.hosted.get(node.name)
    if new is None:
        return "the node is removed"
    if not isinstance(new.spec, specs.ProcessSpec):
        return f"the node becomes {new.spec.kind}"
    if new.parallelism != node.parallelism:
        return f"{node.parallelism} slices become {new.parallelism}"
    old_places, new_places = _places(node), _places(new)
    if any(old_places[name] != new_places[name] for name in old_places.keys() & new_places.keys()):
        return "its rows are routed by other keys"
    old_layout, new_layout = node.spec.operator.state_version, new.spec.operator.state_version
    if old_layout != new_layout and not overrides(new.spec.operator, "migrate_state"):
        return f"state version {old_layout} becomes {new_layout} and there is no migrate_state"
    exports = [overrides(n.spec.operator, "export_state") for n in (node, new)]  # type: ignore[attr-defined]
    if exports[0] != exports[1] and not overrides(new.spec.operator, "migrate_state"):
        return "its state is exported in another way and there is no migrate_state"
    return None


def _places(node: Node) -> dict[str, set[str]]:
    """What the slice of a row follows from, for each input: state stays where its keys are.

    Weights only say how many rows a slice gets, and a broadcast reaches every slice.
    """
    found: dict[str, set[str]] = {}
    for edge in node.inputs:
        if isinstance(edge.route, Shuffle):
            found.setdefault(edge.input, set()).add("shuffle")
        elif edge.route is not None and not isinstance(edge.route, Broadcast):
            found.setdefault(edge.input, set()).add(fingerprint(edge.route))
    return found
