"""The decoded state of a slice between epochs: used again if it is still the log's, otherwise reloaded."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.cache_ledger import Ledger
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


STALE_EPOCHS = 4
"""A copy that lags behind no more than this catches up from the log at little cost."""
UNSEEN_EPOCHS = 1000
"""A slice may also have gone to another machine, of which nothing is known here."""


class StateCache:
    """Decoded states of the slices that this worker served last, up to a number of bytes.

    With a ledger the bytes are those of all workers of the machine together. The state that was put last
    stays however large it is: its memory was needed a moment ago, and will be in the next epoch.
    """

    def __init__(self, limit_bytes: int, ledger: Ledger | None = None) -> None:
        self._limit_bytes = limit_bytes
        self._ledger = ledger
        self._held: OrderedDict[tuple[str, str, int], Held] = OrderedDict()
        self._epochs: dict[tuple[str, str, int], int] = {}
        """When each state was put."""
        self._looked: dict[str, int] = {}
        """The epoch of each run in which stale states were looked for last."""
        self._bytes = 0

    def __contains__(self, key: tuple[str, str, int]) -> bool:
        return key in self._held

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self._bytes

    def take(self, key: tuple[str, str, int]) -> Held | None:
        """The state, which then belongs to the caller until it is put back."""
        held = self._held.pop(key, None)
        self._epochs.pop(key, None)
        if held is not None:
            self._bytes -= held.nbytes
        return held

    def put(self, key: tuple[str, str, int], held: Held, epoch: int = 0) -> None:
        """Keep a state for the next epoch; drop stale copies, and those used longest ago if room is short."""
        self.take(key)
        # What does not tell its size takes about what its log takes.
        held.nbytes = size_of(held.state) or held.head.base_bytes + held.head.delta_bytes
        self._held[key], self._epochs[key] = held, epoch
        self._bytes += held.nbytes
        if self._looked.get(key[0]) != epoch:
            self._looked[key[0]] = epoch
            self._drop_stale(key[0], epoch)
        if self._ledger is None:
            self._shrink(self._limit_bytes)
            return
        self._ledger.served(key, epoch)
        self._ledger.tell(self._bytes, is_short=False)  # before looking: two that grow at once see each other
        wanted, share = self._bytes, self._ledger.share(self._limit_bytes)
        self._shrink(self._ledger.allowed(self._limit_bytes, self._bytes))
        self._ledger.tell(self._bytes, is_short=self._bytes < min(wanted, share))

    def _shrink(self, limit_bytes: int) -> None:
        while self._bytes > limit_bytes and len(self._held) > 1:
            self.take(next(iter(self._held)))

    def _drop_stale(self, run: str, epoch: int) -> None:
        """Let go of copies that others have gone on with, and of slices that were not seen for long.

        A slice that has no events is served nowhere: its state is no stale copy, and is dropped later.
        """
        keys = [key for key in self._held if key[0] == run]
        served = self._ledger.last_served(keys) if self._ledger is not None else [None] * len(keys)
        for key, last in zip(keys, served, strict=True):
            put = self._epochs[key]
            if (last is not None and put + STALE_EPOCHS < last <= epoch) or put + UNSEEN_EPOCHS < epoch:
                self.take(key)


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
