"""A topology in words, as a Mermaid diagram, and the difference between two."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.topology.graph import OUT, Graph, Node


def describe(graph: Graph) -> str:
    """One line per node: name, what it does, what it takes, where it was declared."""
    rows = [
        (node.name, node.spec.describe(), " + ".join(e.describe() for e in node.inputs), str(node.site))
        for node in graph.sorted()
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [
        f"  {name:<{widths[0]}}  {what:<{widths[1]}}  {'← ' if inputs else '  '}{inputs:<{widths[2]}}  {site}"
        for name, what, inputs, site in rows
    ]
    return "\n".join([f"topology '{graph.name}'", *lines])


def mermaid(graph: Graph) -> str:
    """A Mermaid flow chart."""
    identifiers = {node.name: f"n{i}" for i, node in enumerate(graph)}
    lines = ["flowchart LR"]
    for node in graph:
        left, right = {"source": ("([", "])"), "sink": ("[(", ")]")}.get(node.spec.kind, ("[", "]"))
        text = f"{node.name}<br/><i>{_escaped(node.spec.describe())}</i>"
        lines.append(f'  {identifiers[node.name]}{left}"{text}"{right}')
    for node in graph:
        for edge in node.inputs:
            words = [w for w in (edge.output if edge.output != OUT else "", _route(edge.route)) if w]
            label = f"|{_escaped(', '.join(words))}|" if words else ""
            arrow = "==>" if edge.route else "-->"
            lines.append(f"  {identifiers[edge.upstream]} {arrow}{label} {identifiers[node.name]}")
    return "\n".join(lines)


def _route(route: object) -> str:
    return route.describe() if hasattr(route, "describe") else ""


def _escaped(text: str) -> str:
    return text.replace('"', "#quot;").replace("|", "#124;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True, slots=True)
class Difference:
    """What makes one topology into another."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    """Node and what is different about it."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        lines = [f"+ {name}" for name in self.added] + [f"- {name}" for name in self.removed]
        lines += [f"~ {name}: {what}" for name, what in self.changed]
        return "\n".join(lines) or "no difference"


def diff(old: Graph, new: Graph) -> Difference:
    """What was added, removed and changed from ``old`` to ``new``."""
    changed = [
        (node.name, what)
        for node in new
        if node.name in old.nodes and (what := _what_changed(old.nodes[node.name], node))
    ]
    return Difference(
        added=tuple(n.name for n in new if n.name not in old.nodes),
        removed=tuple(n.name for n in old if n.name not in new.nodes),
        changed=tuple(changed),
    )


def _what_changed(old: Node, new: Node) -> str:
    reasons = []
    if old.spec.kind != new.spec.kind:
        reasons.append(f"{old.spec.kind} → {new.spec.kind}")
    elif old.logic != new.logic:
        reasons.append("logic or parameters")
    if not old.same_as(new) and (
        tuple(e.describe() for e in old.inputs) != tuple(e.describe() for e in new.inputs)
    ):
        reasons.append("inputs or routing")
    if old.parallelism != new.parallelism:
        reasons.append(f"parallelism {old.parallelism} → {new.parallelism}")
    if old.on_error != new.on_error:
        reasons.append(f"on_error {old.on_error} → {new.on_error}")
    if not reasons and not old.same_as(new):
        reasons.append("routing")
    return ", ".join(reasons)
