"""Place the nodes of a new version so that their state stays where it is, if the graph allows it."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.program import Program


def keep_hops(desired: Program, running: Program, hops: int) -> Program:
    """Return the desired program with each node in the hop that it has in the running one, where it can.

    Spark keeps a separate state store for each hop, so a node that stays in its hop keeps its state for free.
    A node stays unless one of its inputs now comes from the same hop or a later one, or the nodes behind
    it need the hops that are left. ``hops`` is the number of hops in the fabric, which must suffice.
    """
    behind = _exchanges_behind(desired)
    depth: dict[str, int] = {}
    for node in desired.graph.sorted():
        earliest = max((depth[edge.upstream] for edge in node.inputs), default=0)
        if node.name in desired.hosted:
            earliest += 1
        elif node not in desired.natives:  # fused: it runs where its input is
            depth[node.name] = earliest
            continue
        latest = hops - behind[node.name]
        depth[node.name] = max(earliest, min(_present_hop(running, node.name), latest))
    return replace(desired, depth=depth)


def _present_hop(running: Program, name: str) -> int:
    """Return where the running program has a node that is bound to its place, 0 for any other node."""
    is_bound = name in running.hosted or any(node.name == name for node in running.natives)
    return running.depth[name] if is_bound else 0


def _exchanges_behind(program: Program) -> dict[str, int]:
    """Return the greatest number of exchanges on any way from each node to a sink."""
    behind: dict[str, int] = {}
    for node in reversed(program.graph.sorted()):
        behind[node.name] = max(
            (
                behind[consumer.name] + (consumer.name in program.hosted)
                for consumer, _ in program.graph.consumers(node.name)
            ),
            default=0,
        )
    return behind
