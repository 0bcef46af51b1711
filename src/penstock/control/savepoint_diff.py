"""What lies between two savepoints, in words."""

from __future__ import annotations

from penstock.control.rebuilding import graph_in_words
from penstock.control.savepoint_files import Savepoint
from penstock.errors import VersionNotLoadable
from penstock.topology.describe import Difference, diff


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
    lines += ["nodes:", *(f"  {line}" for line in str(_difference(old, new)).splitlines())]
    names = sorted({*a.state_bytes, *b.state_bytes})
    sizes = [(name, a.state_bytes.get(name, 0), b.state_bytes.get(name, 0)) for name in names]
    lines += ["bytes of state:", *(f"  {_fact(*size)}" for size in sizes)] if sizes else []
    return "\n".join(lines)


def _difference(old: Savepoint, new: Savepoint) -> Difference:
    """What differs between the topologies, by their sources if another Python has made one of them."""
    records = [s.files.version_files.record(s.manifest.version) for s in (old, new)]
    try:
        graphs = [s.files.load(s.manifest.version).graph for s in (old, new)]
    except VersionNotLoadable:
        if None in records:
            raise
        names = (old.manifest.topology, new.manifest.topology)
        graphs = [graph_in_words(r, name) for r, name in zip(records, names, strict=True) if r is not None]
    return diff(*graphs)


def _fact(name: str, old: object, new: object) -> str:
    if old == new:
        return f"{name}: {old}"
    change = f" ({new - old:+})" if isinstance(old, int) and isinstance(new, int) else ""
    return f"{name}: {old} → {new}{change}"
