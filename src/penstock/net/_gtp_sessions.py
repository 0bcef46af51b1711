"""Sessions of GTP as Python objects while transactions are applied, and as tables between epochs.

Only the sessions that a batch of transactions touches are loaded and saved, each kind of row at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from penstock.operators.keyed import KeyedTable

CONTROL, USER = 0, 1
_PLACE = {"plane": "uint8", "ip_high": "uint64", "ip_low": "uint64", "teid": "uint32"}
_ROLE = {"side": "uint8", "bearer": "uint8", "link": "uint8", "interface": "uint8", "apn": "uint32"}
_SUBSCRIBER = {"imsi": "uint64", "msisdn": "uint64", "network": "uint32", "place": "uint64"}
_NEXT = "next session"


class Place(NamedTuple):
    """Where packets of one plane are taken."""

    plane: int
    ip_high: int
    ip_low: int
    teid: int


class Role(NamedTuple):
    """What an end is for: who assigned it (0: who began), its bearer and the first one of its connection."""

    side: int
    bearer: int
    link: int
    interface: int
    apn: int


@dataclass(slots=True)
class Session:
    """A subscriber's session between two nodes. Digits, location and names are numbers."""

    number: int
    imsi: int = 0
    msisdn: int = 0
    network: int = 0
    place: int = 0
    ends: dict[Place, Role] = field(default_factory=dict)
    slots: int = 0
    """Rows of ends that the tables hold."""


def empty_tables() -> dict[str, KeyedTable]:
    """The tables of a slice that knows no session."""
    return {
        "owners": KeyedTable(_PLACE, {"session": int}),
        "sessions": KeyedTable({"session": int}, {**_SUBSCRIBER, "slots": "uint16"}),
        "ends": KeyedTable({"session": int, "slot": "uint16"}, {**_PLACE, **_ROLE}),
        "counters": KeyedTable({"counter": str}, {"value": int}),
    }


class Sessions:
    """The sessions that own any of the given places, and those that are made."""

    def __init__(self, tables: dict[str, Any], places: Iterable[Place]) -> None:
        self._tables = tables
        self._by_number: dict[int, Session] = {}
        self._owners: dict[Place, int] = {}
        self._touched: dict[int, Session] = {}
        self._gone: dict[Place, None] = {}
        counter = tables["counters"].find(_frame({"counter": "string"}, [(_NEXT,)]))
        self._next = int(tables["counters"]["value"][counter[0]]) if counter[0] >= 0 else 0
        self._load(sorted(set(places)))

    def at(self, place: Place) -> Session | None:
        """The session that a place belongs to."""
        number = self._owners.get(place)
        return None if number is None else self._by_number[number]

    def begin(self) -> Session:
        """A new session."""
        session = Session(self._next)
        self._next += 1
        self._by_number[session.number] = session
        return session

    def touch(self, session: Session) -> None:
        """Save a session that was changed."""
        self._touched[session.number] = session

    def give(self, session: Session, place: Place, role: Role) -> None:
        """Let a session have a place; another one that had it loses it."""
        other = self.at(place)
        if other is not None and other is not session:
            del other.ends[place]
            self.touch(other)
        session.ends[place] = role
        self._owners[place] = session.number
        self._gone.pop(place, None)
        self.touch(session)

    def take(self, session: Session, place: Place) -> Role:
        """Take a place away from its session."""
        role = session.ends.pop(place)
        self._owners.pop(place, None)
        self._gone[place] = None
        self.touch(session)
        return role

    def save(self) -> None:
        """Write the sessions that were touched; those without an end are forgotten."""
        kept = [session for session in self._touched.values() if session.ends]
        over = [session for session in self._touched.values() if not session.ends]
        owners, sessions, ends = (self._tables[name] for name in ("owners", "sessions", "ends"))
        _remove(owners, _frame(_PLACE, list(self._gone)))
        _remove(sessions, _frame({"session": int}, [(session.number,) for session in over]))
        _remove(
            ends, _slots((s.number, k) for s in self._touched.values() for k in range(len(s.ends), s.slots))
        )
        _write(
            sessions,
            [(s.number,) for s in kept],
            [(s.imsi, s.msisdn, s.network, s.place, len(s.ends)) for s in kept],
        )
        owned = [(place, (s.number,)) for s in kept for place in s.ends]
        _write(owners, [place for place, _ in owned], [number for _, number in owned])
        held = [((s.number, k), (*end[0], *end[1])) for s in kept for k, end in enumerate(s.ends.items())]
        _write(ends, [key for key, _ in held], [values for _, values in held])
        if self._touched:
            _write(self._tables["counters"], [(_NEXT,)], [(self._next,)])

    def _load(self, places: list[Place]) -> None:
        owners, sessions, ends = (self._tables[name] for name in ("owners", "sessions", "ends"))
        rows = owners.find(_frame(_PLACE, places))
        numbers = np.unique(owners["session"][rows[rows >= 0]])
        found = sessions.frame(sessions.find([pl.Series(numbers)]))
        for number, imsi, msisdn, network, place, slots in found.iter_rows():
            self._by_number[number] = Session(number, imsi, msisdn, network, place, slots=slots)
        keys = _slots((s.number, k) for s in self._by_number.values() for k in range(s.slots))
        for number, _, *values in ends.frame(ends.find(keys)).iter_rows():
            place = Place(*values[:4])
            self._by_number[number].ends[place] = Role(*values[4:])
            self._owners[place] = number


def _frame(columns: dict[str, Any], rows: list[Any]) -> pl.DataFrame:
    from penstock.frames.types import to_polars
    from penstock.topology.schema import Schema

    return pl.DataFrame(rows, schema=to_polars(Schema.of(columns)), orient="row")


def _slots(keys: Iterable[tuple[int, int]]) -> pl.DataFrame:
    return _frame({"session": int, "slot": "uint16"}, list(keys))


def _remove(table: KeyedTable, keys: pl.DataFrame) -> None:
    rows = table.find(keys)
    table.remove(rows[rows >= 0])


def _write(table: KeyedTable, keys: list[Any], values: list[Any]) -> None:
    """Set the values of keys; both are rows in the order of the table's columns."""
    if not keys:
        return
    schema = table.frame(np.empty(0, np.int64)).schema
    names, count = schema.names(), len(keys[0])
    rows = table.rows(pl.DataFrame(keys, schema={name: schema[name] for name in names[:count]}, orient="row"))
    for name, column in zip(names[count:], zip(*values, strict=True), strict=True):
        table[name][rows] = np.array(column, table[name].dtype)
