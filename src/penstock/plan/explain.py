"""The plan in words: what `penstock check` prints."""

from __future__ import annotations

from penstock.plan.passes import plan
from penstock.plan.program import Program
from penstock.topology import specs
from penstock.topology.graph import Node
from penstock.topology.stream import Topology


def explain(topology: Topology, *, hops: int | None = None, partitions: int | None = None) -> str:
    """Stages, hops, and where state lives, without starting Spark. Raises TopologyError."""
    program = plan(topology)
    fabric = max(program.hops, hops or 0)
    exchanges = f"{fabric} exchange{'' if fabric == 1 else 's'}"
    spread = f" over {partitions} state partitions" if partitions else ""
    lines = [f"topology '{topology.name}': 1 stage, {exchanges}{spread}", "", "  sources"]
    for name in program.sources:
        lines += _segment(program, program.graph[name])
    for hop in range(1, fabric + 1):
        lines += ["", f"  hop {hop}"]
        hosted = [n for n in program.hosted.values() if program.depth[n.name] == hop]
        for node in hosted:
            lines += _segment(program, node)
        lines += [] if hosted else ["    (spare: frames pass through)"]
    for node in program.natives:
        lines += ["", f"  Spark DataFrame '{node.name}' after hop {program.depth[node.name]}"]
        lines += _segment(program, node)
    lines += ["", "  sinks"]
    lines += [f"    {name}: {spec.sink.describe()}" for name, spec in program.sinks.items()]
    return "\n".join(lines)


def _segment(program: Program, entry: Node) -> list[str]:
    """One entry and what is fused behind it."""
    fused = _fused(program, entry)
    inside = "".join(f" → {node.name}" for node in fused)
    lines = [f"    {entry.name}{inside}   [{_place(program, entry)}]"]
    for node in (entry, *fused):
        for consumer, edge in program.graph.consumers(node.name):
            if not program.is_fused(consumer):
                how = edge.route.describe() if edge.route else "rows"
                lines.append(f"      {node.name} ⇒ {consumer.name} ({how}): {program.input_schema(edge)}")
    return lines


def _fused(program: Program, entry: Node) -> list[Node]:
    found: list[Node] = []
    for consumer, _ in program.graph.consumers(entry.name):
        if program.is_fused(consumer):
            found += [node for node in (consumer, *_fused(program, consumer)) if node not in found]
    return found


def _place(program: Program, node: Node) -> str:
    if isinstance(node.spec, specs.SourceSpec):
        pairs = zip(node.spec.limits, ("rows", "bytes"), strict=True)
        limits = [f"{limit:,} {unit}" for limit, unit in pairs if limit is not None]
        most = f"at most {' or '.join(limits)}" if limits else "all there is, however much"
        return f"{node.spec.source.describe()}; per epoch: {most}"
    if isinstance(node.spec, specs.ProcessSpec):
        return f"{node.parallelism} slices; state in Spark's state store, one log per slice"
    return f"{node.parallelism} slices; no state" if node.routed else "in Spark"
