"""What lies between two savepoints, in words."""

from __future__ import annotations

from penstock.control.savepoint_files import Savepoint
from penstock.topology.describe import diff


def compare(old: Savepoint, new: Savepoint) -> str:
    """Epochs, versions, the topology and the size of each node's state."""
    a, b = old.manifest, new.manifest
    facts = [
        ("topology", a.topology, b.topology),
        ("run", a.run_id, b.run_id),
        ("epoch", a.epoch, b.epoch),
        ("version", a.version, b.version),
        ("hops", a.hops, b.hops),
        ("state partitions", a.partitions, b.partitions),
        ("bytes", a.nbytes, b.nbytes),
    ]
    lines = [_fact(*fact) for fact in facts]
    graphs = [savepoint.files.load(savepoint.manifest.version).graph for savepoint in (old, new)]
    lines += ["nodes:", *(f"  {line}" for line in str(diff(*graphs)).splitlines())]
    names = sorted({*a.state_bytes, *b.state_bytes})
    sizes = [(name, a.state_bytes.get(name, 0), b.state_bytes.get(name, 0)) for name in names]
    lines += ["bytes of state:", *(f"  {_fact(*size)}" for size in sizes)] if sizes else []
    return "\n".join(lines)


def _fact(name: str, old: object, new: object) -> str:
    if old == new:
        return f"{name}: {old}"
    change = f" ({new - old:+})" if isinstance(old, int) and isinstance(new, int) else ""
    return f"{name}: {old} → {new}{change}"
