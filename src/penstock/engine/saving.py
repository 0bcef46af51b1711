"""How a state becomes bytes and back, whatever it is made of.

Three ways: containers that track what changed (KeyedTable and dicts of them), the operator's own
``export_state``, or the whole state pickled. The operator's class decides; users need not.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

from penstock.engine.state_log import (
    GENESIS,
    Head,
    Shelf,
    next_stamp,
    read_base,
    read_deltas,
    wants_base,
    write_base,
    write_delta,
)
from penstock.operators import user_pickle
from penstock.operators.operator import Operator, overrides


class Way(ABC):
    """Saves and restores the state of one slice."""

    tag: ClassVar[int]

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    @abstractmethod
    def save(self, state: Any, shelf: Shelf, head: Head, stagger: int) -> Head | None:
        """Write what changed and give the new head; None if nothing changed."""

    @abstractmethod
    def restore(self, shelf: Shelf, head: Head) -> Any:
        """The state that the log holds."""

    def catch_up(self, state: Any, shelf: Shelf, head: Head, stamp: int, first: int) -> Any:
        """Bring a state of the log's past up to date. Raises LookupError if that cannot be done."""
        raise LookupError("this state is restored as a whole")

    @abstractmethod
    def exported(self, shelf: Shelf, head: Head) -> Any:
        """What ``migrate_state`` gets of a log that another version wrote."""


class Containers(Way):
    """A container, or a dict of containers, that knows what changed in it."""

    tag = 0

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._logged: dict[str, Any] = {}
        """The containers whose changes the log follows; one that took another's place has no past there."""

    def save(self, state: Any, shelf: Shelf, head: Head, stagger: int) -> Head | None:
        parts = _parts(state)
        replaced = self._logged.keys() != parts.keys() or any(self._logged[n] is not parts[n] for n in parts)
        # Without a base, a restore begins with the containers of init_state: those need not be written.
        differs = replaced if head.base_values else self._initial.keys() != parts.keys()
        if not any(part.is_changed for part in parts.values()) and not differs:
            return None
        self._check(parts)
        self._logged = dict(parts)
        if replaced or wants_base(head, stagger):
            return write_base(shelf, head, _packed({n: p.export_base() for n, p in parts.items()}))
        changed = {n: p.export_delta() for n, p in parts.items() if p.is_changed}
        return write_delta(shelf, head, _packed(changed))

    def restore(self, shelf: Shelf, head: Head) -> Any:
        state = self.operator.init_state()
        base, *deltas = _blobs(shelf, head)
        _begin(state, _unpacked(base))
        for delta in deltas:
            _apply(state, delta)
        self._logged = dict(_parts(state))
        return state

    def catch_up(self, state: Any, shelf: Shelf, head: Head, stamp: int, first: int) -> Any:
        if first < head.first_delta:
            raise LookupError("the state is older than the base")
        for delta in list(read_deltas(shelf, head, stamp, first)):  # all are checked before one is applied
            _apply(state, delta)
        return state

    def exported(self, shelf: Shelf, head: Head) -> Any:
        """The rows of each container as it was (see ``KeyedTable.frame``)."""
        from penstock.operators.keyed import KeyedTable

        base, *deltas = _blobs(shelf, head)
        fresh = _parts(self.operator.init_state())
        own = {name: part for name, part in fresh.items() if not isinstance(part, KeyedTable)}
        tables = {name: _filled(own.get(name), part) for name, part in _unpacked(base).items()}
        for delta in deltas:
            for name, part in _unpacked(delta).items():
                tables[name].apply(part)
        frames = {name: table.frame() for name, table in tables.items()}
        return frames[""] if set(frames) == {""} else frames

    @cached_property
    def _initial(self) -> dict[str, Any]:
        """The containers that a new state has."""
        return _parts(self.operator.init_state())

    def _check(self, parts: dict[str, Any]) -> None:
        """Refuse a container that a restore could not make anew, before it is written."""
        from penstock.operators.keyed import KeyedTable

        for name, part in parts.items():
            wanted = type(self._initial.get(name)) if name in self._initial else KeyedTable
            if type(part) is not wanted:
                raise TypeError(
                    f"the state has a {type(part).__name__} under the name '{name}', which init_state() "
                    f"gives {'another kind' if name in self._initial else 'no container'}: let init_state() "
                    f"make it, or add a KeyedTable"
                )


class _Whole(Way):
    """The state as one piece, written when it differs from what was written last."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._last = GENESIS

    def _save_whole(self, blob: bytes, shelf: Shelf, head: Head) -> Head | None:
        mark = next_stamp(GENESIS, blob)
        if head.base_values and mark == self._last:
            return None
        self._last = mark
        return write_base(shelf, head, blob)

    def _read_whole(self, shelf: Shelf, head: Head) -> bytes:
        _, blob = read_base(shelf, head)
        self._last = next_stamp(GENESIS, blob)
        return blob


class Pickled(_Whole):
    """Anything that can be pickled."""

    tag = 1

    def save(self, state: Any, shelf: Shelf, head: Head, stagger: int) -> Head | None:
        if state is None and not head.base_values:
            return None
        return self._save_whole(user_pickle.dumps(state, self.operator), shelf, head)

    def restore(self, shelf: Shelf, head: Head) -> Any:
        return user_pickle.loads(self._read_whole(shelf, head), self.operator)

    def exported(self, shelf: Shelf, head: Head) -> Any:
        return self.restore(shelf, head)


class OwnBytes(_Whole):
    """An operator that exports the whole state as bytes, or the chunks that changed."""

    tag = 2

    def save(self, state: Any, shelf: Shelf, head: Head, stagger: int) -> Head | None:
        made = self.operator.export_state(state)
        if isinstance(made, bytes | bytearray | memoryview):
            return self._save_whole(_packed({"whole": bytes(made)}), shelf, head)
        if not isinstance(made, dict):
            raise TypeError(f"export_state must give bytes, or a dict of bytes: got {type(made).__name__}")
        if not made:
            return None
        delta = _packed({f"chunk {name}": chunk for name, chunk in made.items()})
        if head.base_values and wants_base(head, stagger):
            return write_base(shelf, head, _packed(_merged([*_blobs(shelf, head), delta])))
        return write_delta(shelf, head, delta) if head.base_values else write_base(shelf, head, delta)

    def restore(self, shelf: Shelf, head: Head) -> Any:
        blobs = _blobs(shelf, head)
        self._last = GENESIS if head.deltas else next_stamp(GENESIS, blobs[0])
        return self.operator.import_state(_as_exported(blobs))

    def exported(self, shelf: Shelf, head: Head) -> Any:
        return _as_exported(_blobs(shelf, head))


def _as_exported(blobs: list[bytes]) -> bytes | dict[str, bytes]:
    parts = _merged(blobs)
    if "whole" in parts:
        return parts["whole"]
    return {name.removeprefix("chunk "): chunk for name, chunk in parts.items()}


WAYS: dict[int, type[Way]] = {way.tag: way for way in (Containers, Pickled, OwnBytes)}


def way_for(operator: Operator) -> type[Way]:
    """How this operator's state is saved."""
    if overrides(operator, "export_state"):
        return OwnBytes
    parts = _parts(operator.init_state())
    # An empty dict does not tell what it will hold.
    return Containers if parts and all(map(_is_container, parts.values())) else Pickled


def size_of(state: Any) -> int:
    """Bytes that the state's containers hold."""
    return sum(int(getattr(part, "nbytes", 0)) for part in _parts(state).values())


def _is_container(part: Any) -> bool:
    return all(hasattr(part, name) for name in ("export_base", "export_delta", "apply", "is_changed"))


def _parts(state: Any) -> dict[str, Any]:
    """Return the containers by name; a dict may have lost all of them."""
    return state if isinstance(state, dict) else {"": state}


def _begin(state: Any, base: dict[str, bytes]) -> None:
    """Fill a new state with a base; a dict may have got other containers than it began with."""
    parts = _parts(state)
    for name in [name for name in parts if name not in base]:
        del parts[name]
    for name, part in base.items():
        if name not in parts:
            from penstock.operators.keyed import KeyedTable

            parts[name] = KeyedTable.restored(part)
        else:
            parts[name].apply(part)


def _filled(container: Any, base: bytes) -> Any:
    """A container of another kind with what was in it; a KeyedTable with the columns that it had."""
    if container is None:
        from penstock.operators.keyed import KeyedTable

        return KeyedTable.restored(base)
    container.apply(base)
    return container


def _apply(state: Any, blob: bytes) -> None:
    parts = _parts(state)
    for name, part in _unpacked(blob).items():
        parts[name].apply(part)


def _blobs(shelf: Shelf, head: Head) -> list[bytes]:
    """The base and the deltas, checked to be one history: damaged bytes must not reach a decoder."""
    stamp, base = read_base(shelf, head)
    return [base, *read_deltas(shelf, head, stamp, head.first_delta)]


def _merged(blobs: list[bytes]) -> dict[str, bytes]:
    """Later chunks replace earlier ones; None drops one."""
    total: dict[str, bytes] = {}
    for blob in blobs:
        total.update(_unpacked(blob))
    return {name: chunk for name, chunk in total.items() if chunk is not None}


def _packed(parts: dict[str, Any]) -> bytes:
    return pickle.dumps(parts, protocol=5)


def _unpacked(blob: bytes) -> dict[str, Any]:
    parts: dict[str, Any] = pickle.loads(blob)
    return parts
