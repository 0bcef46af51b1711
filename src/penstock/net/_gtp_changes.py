"""What answered requests do to sessions, and the rows that tell of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from penstock.frames.types import to_polars
from penstock.net import _subscriber_codes as codes
from penstock.net._gtp_ies import NO_BEARER
from penstock.net._gtp_sessions import CONTROL, USER, Place, Role, Session, Sessions
from penstock.topology.schema import Schema

_GONE_1, _GONE_2 = 192, 64  # the node that is asked to delete does not know the session
_TO_ACCESS = (0, 2, 15)  # interfaces towards a radio network: S1-U, S12, S4
_MOST_NAMES = 1 << 16
_END = ("ip_high", "ip_low", "teid")
_ROWS = Schema.of(
    {
        "time": "timestamp", "outer_dst_ip_high": "uint64", "outer_dst_ip_low": "uint64",
        "tunnel_id": "uint32", "imsi": "uint64", "msisdn": "uint64", "network": "uint32", "place": "uint64",
        "number": "uint32", "bearer": "uint8", "is_valid": "bool",
    }
)  # fmt: skip


class Changes:
    """Applies answered requests one after the other; control messages are few."""

    def __init__(self, state: dict[str, Any], answered: pl.DataFrame) -> None:
        self._names = Names(state["names"])
        numbered = answered.with_columns(
            imsi=codes.digits_code("imsi"),
            msisdn=codes.digits_code("msisdn"),
            network=codes.network_code(),
            place=codes.place_code(),
        )
        self._asked = numbered.to_dicts()
        self._sessions = Sessions(state, (place for asked in self._asked for place in _places(asked)))
        self._made: list[tuple[Any, ...]] = []

    def apply(self) -> Iterator[tuple[Any, ...]]:
        """Change the state; gives (time, version, kind, why) of what changes nothing."""
        for asked in self._asked:
            if why := self._apply(asked):
                yield asked["time"], asked["version"], asked["kind"], why
        self._sessions.save()
        self._names.save()

    def rows(self) -> pl.DataFrame:
        """What became of the ends, in the order in which it happened."""
        made = pl.DataFrame(self._made, schema=to_polars(_ROWS), orient="row")
        told = made.with_columns(
            codes.digits_text("imsi"),
            codes.digits_text("msisdn"),
            *codes.network_texts("network"),
            *codes.place_columns("place"),
            apn=self._names.texts(made["number"]),
        )
        order = (*_ROWS.names[:6], "mcc", "mnc", "location", "area", "cell", "apn", "bearer", "is_valid")
        return told.select(order)

    def _apply(self, asked: dict[str, Any]) -> str | None:
        what = asked["kind"].removesuffix(" request")
        is_gone = what == "delete" and asked["cause_response"] in (_GONE_1, _GONE_2)
        if not asked["is_accepted_response"] and not is_gone:
            return "rejected"
        session = self._session(asked, what)
        if session is None:
            return "unknown session"
        if what == "delete":
            self._end(session, asked, _deleted(session, asked))
        elif what == "release":
            self._end(session, asked, lambda role: role.interface in _TO_ACCESS and asked["version"] == 2)
        else:
            self._assign(session, asked)
        return None

    def _session(self, asked: dict[str, Any], what: str) -> Session | None:
        """The session that a request speaks of; one that brings a subscriber along may begin it."""
        session = self._sessions.at(_asked_place(asked))
        own = _control_place(asked, "")
        if session is None and own is not None and what != "delete":
            session = self._sessions.at(own)
            if session is not None and asked["imsi"] not in (0, session.imsi):
                # A node that gives a number out again has forgotten what it stood for.
                self._end(session, asked, lambda _: True)
                session = None
        if session is None and asked["imsi"] and what in ("create", "update", "modify"):
            session = self._sessions.begin()
        return session

    def _assign(self, session: Session, asked: dict[str, Any]) -> None:
        """Note the subscriber and the new ends; an end of the same role that is not named again is over."""
        heard = session.ends.get(_asked_place(asked))
        sender = 0 if heard is None else 1 - heard.side
        before = session.imsi, session.msisdn, session.network, session.place
        session.imsi, session.msisdn = asked["imsi"] or session.imsi, asked["msisdn"] or session.msisdn
        if asked["place"]:
            session.network, session.place = asked["network"], asked["place"]
        self._sessions.touch(session)
        new = {
            **self._named(session, asked, "", sender),
            **self._named(session, asked, "_response", 1 - sender),
        }
        roles = {(place.plane, role.side, role.bearer, role.interface) for place, role in new.items()}
        self._end(session, asked, lambda role: False, replaced=roles, kept=new)
        is_other = before != (session.imsi, session.msisdn, session.network, session.place)
        told = {place: role for place, role in new.items() if is_other or session.ends.get(place) != role}
        for place, role in new.items():
            self._sessions.give(session, place, role)
        for place, role in (session.ends if is_other else told).items():
            self._tell(session, asked, place, role, is_valid=True)

    def _named(self, session: Session, asked: dict[str, Any], by: str, side: int) -> dict[Place, Role]:
        """The ends that a request (by="") or its response assigns, with their roles."""
        found = {}
        if own := _control_place(asked, by):
            found[own] = Role(side, NO_BEARER, NO_BEARER, NO_BEARER, 0)
        asked_bearers = asked["bearers"] or []
        for end in asked[f"user_tunnels{by}"] or []:
            bearer = end["bearer"]
            if bearer == NO_BEARER and asked_bearers:
                bearer = asked_bearers[0]
            link, apn = self._connection(session, asked, bearer)
            found[Place(USER, *(end[name] for name in _END))] = Role(
                side, bearer, link, end["interface"], apn
            )
        return found

    def _connection(self, session: Session, asked: dict[str, Any], bearer: int) -> tuple[int, int]:
        """The first bearer of a bearer's connection, and the number of its access point's name."""
        linked, apn = asked["linked_bearer"], self._names.number(asked["apn"])
        known = [role for place, role in session.ends.items() if place.plane == USER]
        for role in known:
            if role.bearer == bearer or role.link == linked:
                return role.link, apn or role.apn
        first = (asked["bearers"] or [bearer])[0]
        return first if linked is None else linked, apn

    def _end(
        self, session: Session, asked: dict[str, Any], is_over: Callable[[Role], bool], *,
        replaced: set[tuple[int, int, int, int]] | None = None, kept: dict[Place, Role] | None = None,
    ) -> None:  # fmt: skip
        """Take ends away that are over or whose role others have now; the last user's end takes the rest."""
        for place, role in list(session.ends.items()):
            is_replaced = (place.plane, role.side, role.bearer, role.interface) in (replaced or ())
            if (is_replaced and place not in (kept or ())) or (place.plane == USER and is_over(role)):
                self._sessions.take(session, place)
                self._tell(session, asked, place, role, is_valid=False)
        if replaced is None and not any(place.plane == USER for place in session.ends):
            for place in list(session.ends):
                self._sessions.take(session, place)

    def _tell(
        self, session: Session, asked: dict[str, Any], place: Place, role: Role, *, is_valid: bool
    ) -> None:
        if place.plane == USER:
            who = (session.imsi, session.msisdn, session.network, session.place)
            self._made.append((asked["time_response"], *place[1:], *who, role.apn, role.bearer, is_valid))


class Names:
    """Names of access points as numbers; 0 stands for none, and for those beyond the first 65,536."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._numbers: dict[str, int] = dict(table.frame().iter_rows())
        self._new: list[str] = []

    def number(self, name: str | None) -> int:
        """The number of a name."""
        if name is None or (name not in self._numbers and len(self._numbers) >= _MOST_NAMES):
            return 0
        if name not in self._numbers:
            self._numbers[name] = len(self._numbers) + 1
            self._new.append(name)
        return self._numbers[name]

    def texts(self, numbers: pl.Series) -> pl.Series:
        """The names of numbers."""
        known = {number: name for name, number in self._numbers.items()}
        return numbers.replace_strict(known, default=None, return_dtype=pl.String)

    def save(self) -> None:
        """Write the names that are new."""
        if self._new:
            rows = self._table.rows([pl.Series(self._new)])
            self._table["number"][rows] = [self._numbers[name] for name in self._new]


def _deleted(session: Session, asked: dict[str, Any]) -> Callable[[Role], bool]:
    """Which bearers a request to delete means: single ones, a whole connection, or all."""
    bearers, linked = asked["bearers"] or [], asked["linked_bearer"]
    if asked["version"] == 1 and bearers:
        links = {role.link for role in session.ends.values() if role.bearer == bearers[0]}
        return lambda role: role.bearer == bearers[0] or (asked["is_teardown"] and role.link in links)
    if linked is not None:
        return lambda role: role.link == linked
    return lambda role: not bearers or role.bearer in bearers


def _asked_place(asked: dict[str, Any]) -> Place:
    """The end that a request is sent to."""
    return Place(CONTROL, asked["dst_ip_high"], asked["dst_ip_low"], asked["teid"] or 0)


def _control_place(asked: dict[str, Any], by: str) -> Place | None:
    """The control end that a request (by="") or its response assigns; by default at the sender's address."""
    teid = asked[f"control_teid{by}"]
    if not teid:
        return None
    high, low = asked[f"control_ip_high{by}"], asked[f"control_ip_low{by}"]
    if high is None:
        sender = "dst" if by else "src"
        high, low = asked[f"{sender}_ip_high"], asked[f"{sender}_ip_low"]
    return Place(CONTROL, high, low, teid)


def _places(asked: dict[str, Any]) -> Iterator[Place]:
    """All places that a request and its response speak of."""
    yield _asked_place(asked)
    for by in ("", "_response"):
        if own := _control_place(asked, by):
            yield own
        for end in asked[f"user_tunnels{by}"] or []:
            yield Place(USER, *(end[name] for name in _END))
