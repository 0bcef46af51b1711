"""Which state has to leave its hop when one program follows another. Pure.

Each hop of the fabric has its own state store. The last epoch of the old program exports the state of a node
that changes its hop to durable files, and the first epoch of the new program imports it. One epoch cannot do
both: the new place may lie upstream of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.plan.program import Program
from penstock.topology.specs import ProcessSpec

Step = Literal["export", "import", "discard"]


@dataclass(frozen=True, slots=True)
class Moves:
    """The nodes whose state leaves the place that it has in the old program."""

    moved: tuple[str, ...] = ()
    """Nodes that stand in another hop from the next program on, and keep their state."""
    discarded: tuple[str, ...] = ()
    """Nodes whose state nobody will read again: it is freed."""

    def __bool__(self) -> bool:
        return bool(self.moved or self.discarded)

    def before(self, old: Program) -> dict[str, tuple[Step, int]]:
        """Return what the slices of each node do in the last epoch of the old program, and their number."""
        steps: dict[str, tuple[Step, int]] = {
            name: ("export", old.graph[name].parallelism) for name in self.moved
        }
        return steps | {name: ("discard", old.graph[name].parallelism) for name in self.discarded}

    def after(self, new: Program) -> dict[str, tuple[Step, int]]:
        """Return what the slices of each node do in the first epoch of the new program, and their number."""
        return {name: ("import", new.graph[name].parallelism) for name in self.moved}


def moves_between(old: Program, new: Program) -> Moves:
    """Compare the places of two programs' state.

    State is the same in both programs if it was created in the same version. A node that loses its state and
    stays in its hop clears its slices itself when it opens them, unless it has fewer of them from then on.
    """
    moved, discarded = [], []
    for name, node in old.hosted.items():
        if not isinstance(node.spec, ProcessSpec):
            continue
        stays = name in new.hosted and isinstance(new.hosted[name].spec, ProcessSpec)
        same = stays and old.born.get(name, 0) == new.born.get(name, 0)
        if stays and old.depth[name] == new.depth[name]:
            if same or node.parallelism <= new.graph[name].parallelism:
                continue
            discarded.append(name)  # no slice of the new program opens those that it has not
        elif same:
            moved.append(name)
        else:
            discarded.append(name)
    return Moves(tuple(moved), tuple(discarded))
