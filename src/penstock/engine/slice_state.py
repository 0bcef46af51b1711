"""The decoded state of a slice between epochs: used again if it is still the log's, otherwise reloaded."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.saving import WAYS, Way, size_of, way_for
from penstock.engine.state_log import BrokenLog, Head, Shelf, empty_head
from penstock.errors import PenstockError, StateDamaged, StateNotRestorable
from penstock.operators.operator import Operator
from penstock.topology.graph import Node


@dataclass(slots=True)
class Held:
    """A decoded state, and the place in its log that it stands for."""

    head: Head
    logic: str
    """Fingerprint of the operator that decoded it; other code may see it differently."""
    way: Way
    state: Any
    nbytes: int = 0


class StateCache:
    """Decoded states of the slices that this worker served last, up to a number of bytes."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[tuple[str, str, int], Held] = OrderedDict()
        self._bytes = 0

    def take(self, key: tuple[str, str, int]) -> Held | None:
        """The state, which then belongs to the caller until it is put back."""
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= held.nbytes
        return held

    def put(self, key: tuple[str, str, int], held: Held) -> None:
        """Keep a state for the next epoch, and let go of those used longest ago if there are too many."""
        self.take(key)
        # What does not tell its size takes about what its log takes.
        held.nbytes = size_of(held.state) or held.head.base_bytes + held.head.delta_bytes
        self._held[key] = held
        self._bytes += held.nbytes
        while self._bytes > self._limit_bytes and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            self._bytes -= oldest.nbytes


def open_state(node: Node, slice_: int, born: int, shelf: Shelf, held: Held | None) -> Held:
    """The state of a slice as its log says, from memory where that is still the same."""
    try:
        return _opened(node, slice_, born, shelf, held)
    except StateDamaged:
        if not shelf.distrust():
            raise
        return _opened(node, slice_, born, shelf, None)


def _opened(node: Node, slice_: int, born: int, shelf: Shelf, held: Held | None) -> Held:
    operator: Operator = node.spec.operator  # type: ignore[attr-defined]
    packed = shelf.head()
    try:
        head = Head.unpack(packed) if packed is not None else None
    except BrokenLog as error:
        raise StateDamaged(node=node.name, slice=slice_, what=error) from error
    if head is None or head.born != born:
        return _fresh(node, operator, born, head)
    if held is not None and held.logic == node.logic and held.head.born == born:
        if held.head.stamp == head.stamp:
            return held
        if caught_up := _caught_up(held, shelf, head):
            return caught_up
    return _restored(node, slice_, operator, shelf, head)


def save_state(held: Held, shelf: Shelf, stagger: int) -> Held:
    """Write what changed since the state was opened."""
    head = held.way.save(held.state, shelf, held.head, stagger)
    if head is not None:
        shelf.put_head(head.pack())
        held.head = head
    return held


def _fresh(node: Node, operator: Operator, born: int, before: Head | None) -> Held:
    way = way_for(operator)(operator)
    head = empty_head(born, operator.state_version, way.tag)
    if before is not None:  # what an earlier node of this name left is dropped with the first save
        head = replace(head, base=before.base, following=before.following)
    return Held(head, node.logic, way, operator.init_state())


def _caught_up(held: Held, shelf: Shelf, head: Head) -> Held | None:
    if held.head.way != head.way or held.head.layout != head.layout:
        return None
    try:
        state = held.way.catch_up(held.state, shelf, head, held.head.stamp, held.head.following)
    except LookupError:
        return None
    return Held(head, held.logic, held.way, state)


def _restored(node: Node, slice_: int, operator: Operator, shelf: Shelf, head: Head) -> Held:
    way = way_for(operator)(operator)
    try:
        if head.layout == operator.state_version and head.way == way.tag:
            return Held(head, node.logic, way, way.restore(shelf, head))
        blob = WAYS[head.way](operator).exported(shelf, head)
        state = operator.migrate_state(blob, head.layout)
    except PenstockError:
        raise
    except BrokenLog as error:
        raise StateDamaged(node=node.name, slice=slice_, what=error) from error
    except Exception as error:
        raise StateNotRestorable(
            node=node.name, site=str(node.site), slice=slice_, reason=f"{type(error).__name__}: {error}"
        ) from error
    # A migrated state has no base of its own yet: forgetting the old one makes the next save write it.
    anew = replace(head, layout=operator.state_version, way=way.tag, base_values=0, base_bytes=0)
    return Held(anew, node.logic, way, state)
