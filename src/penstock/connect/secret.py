"""Credentials of sources and sinks: references, which are resolved when they are used, and hidden plain text.

A topology is stored, shipped, printed and compared. A reference lets it name a credential without holding it.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.errors import BadArgument, SecretUnusable

HIDDEN = "***"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
# Lower-case letters are left out on purpose: most tokens have some, and a token that stands where a name
# belongs must not come back in an error.
_ALLOWED = "the name of an environment variable: upper-case letters, digits and '_', not the value itself"


@dataclass(frozen=True, slots=True)
class Secret:
    """A credential in an environment variable, such as a token or a password, by the variable's name.

    The name alone is stored, shipped and printed. The process that uses the value reads it at that moment, so
    a run that is started again uses a new value. ``prefix`` is plain text that goes before the value:
    ``ps.Secret("SIGNALS_TOKEN", prefix="Bearer ")``.
    """

    name: str
    prefix: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _VARIABLE.fullmatch(self.name):
            got = "something else (not shown: it may be the secret)"
            raise BadArgument(where="Secret", what="the name", got=got, allowed=_ALLOWED)

    def resolve(self, *, where: str) -> str:
        """Return the prefix and the variable's present value. Raises SecretUnusable if there is none."""
        value = os.environ.get(self.name)
        if not value:
            raise self.unusable(where=where, got="is not set" if value is None else "is empty")
        return self.prefix + value

    def unusable(self, *, where: str, got: str, allowed: str = "a value that is not empty") -> SecretUnusable:
        """Return the error that says what is wrong with the variable, without its value."""
        step = f"set {self.name} in the environment of the process that runs the topology and run again"
        return SecretUnusable(
            where=where,
            what=f"the environment variable {self.name}",
            got=got,
            allowed=allowed,
            next_step=step,
        )


@dataclass(frozen=True, slots=True)
class PlainSecret:
    """A credential that was written into the topology as plain text: used as it is, and never printed.

    It travels with the program, whose files are private. The JSON form of a topology is text for people and
    leaves it out (``hidden``), so a topology that is read from JSON lacks it.
    """

    value: str | None = field(repr=False, metadata={"hidden": True})

    def resolve(self, *, where: str) -> str:
        """Return the text. Raises SecretUnusable if the topology was read from JSON."""
        if self.value is None:
            raise SecretUnusable(
                where=where,
                what="a credential in plain text",
                got="was left out of the topology's JSON form",
                allowed='a reference such as ps.Secret("SIGNALS_TOKEN"), which JSON keeps',
                next_step="write it as a reference, or build the topology from its Python source",
            )
        return self.value


def secrets_in(value: object) -> Iterator[Secret | PlainSecret]:
    """Yield the credentials in a source or sink, wherever its fields hold them."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Secret | PlainSecret):
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            waiting += _held_by(item)


def require_secrets(users: Mapping[str, object]) -> None:
    """Resolve every credential once, by the name of the node that uses it. Raises SecretUnusable."""
    for name, user in users.items():
        for secret in secrets_in(user):
            secret.resolve(where=f"node '{name}'")


def _held_by(item: object) -> list[object]:
    if isinstance(item, Mapping):
        return list(item.values())
    if isinstance(item, list | tuple | set | frozenset):
        return list(item)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return [getattr(item, f.name, None) for f in dataclasses.fields(item)]
    return []
