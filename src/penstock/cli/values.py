"""Words of the command line as arguments of the function that makes a topology.

Plain words go to its positional parameters, ``--name value`` to its keyword-only ones, ``--name`` alone to a
flag. Annotations say what a word is turned into.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the function, as the command line sees it."""

    name: str
    kinds: tuple[Any, ...]
    keyword: bool
    many: bool
    default: Any

    @property
    def flag(self) -> bool:
        return self.kinds == (bool,)

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def read(self, word: str) -> Any:
        """The word as the annotation wants it; a ValueError says what it should have been."""
        for kind in self.kinds:
            if typing.get_origin(kind) is typing.Literal:
                if word in typing.get_args(kind):
                    return word
            elif kind in (int, float):
                try:
                    return kind(word.replace("_", ""))
                except ValueError:
                    continue
            elif kind is bool:
                if word.lower() in ("yes", "true", "no", "false"):
                    return word.lower() in ("yes", "true")
            else:
                return Path(word) if kind is Path else word
        raise ValueError(f"{self.shown}: {word!r} is not {' or '.join(map(_told, self.kinds))}")

    @property
    def shown(self) -> str:
        """How it is written on the command line."""
        if not self.keyword:
            return f"{self.name.upper()}{'…' if self.many else ''}"
        return self.option if self.flag else f"{self.option} {self.name.upper()}"


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    """What the function takes."""
    hints = typing.get_type_hints(function)
    return [
        Parameter(
            name=name,
            kinds=_kinds(hints.get(name, str)),
            keyword=given.kind is given.KEYWORD_ONLY,
            many=given.kind is given.VAR_POSITIONAL,
            default=given.default,
        )
        for name, given in inspect.signature(function).parameters.items()
        if given.kind is not given.VAR_KEYWORD
    ]


def bind(function: Callable[..., Any], words: Sequence[str]) -> Callable[[], Any]:
    """The call that the words ask for; a ValueError says which word does not fit."""
    known = parameters(function)
    places = [parameter for parameter in known if not parameter.keyword]
    options = {parameter.option: parameter for parameter in known if parameter.keyword}
    values: list[Any] = []
    named: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and word != "--":
            name, _, value = word.partition("=")
            option = options.get(name)
            if option is None:
                raise ValueError(f"there is no option {name}")
            if option.flag and not value:
                named[option.name] = True
                continue
            named[option.name] = option.read(value or _next(rest, option))
        else:
            number = min(len(values), len(places) - 1)
            if number < 0 or (len(values) >= len(places) and not places[number].many):
                raise ValueError(f"too many values: {word!r} is more than it takes")
            values.append(places[number].read(word))
    missing = [p.shown for p in places[len(values) :] if p.default is _EMPTY and not p.many]
    missing += [p.shown for p in options.values() if p.default is _EMPTY and p.name not in named]
    if missing:
        raise ValueError(f"missing: {', '.join(missing)}")
    return lambda: function(*values, **named)


def usage(function: Callable[..., Any]) -> str:
    """What the function takes, in one line."""
    known = parameters(function)
    shown = [p.shown if p.default is _EMPTY and not p.many else f"[{p.shown}]" for p in known]
    return " ".join(shown) or "nothing"


def explained(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """What the function takes, one by one: how it is written, and what it may be or is without it."""
    return [(p.shown, "; ".join(filter(None, (_choices(p), _default(p))))) for p in parameters(function)]


def _choices(parameter: Parameter) -> str:
    told = [_told(kind) for kind in parameter.kinds if typing.get_origin(kind) is typing.Literal]
    return " or ".join(told)


def _default(parameter: Parameter) -> str:
    if parameter.default is _EMPTY:
        return "" if parameter.many else "required"
    return "" if parameter.flag or parameter.default is None else f"default: {parameter.default}"


def _next(rest: Iterator[str], option: Parameter) -> str:
    word = next(rest, None)
    if word is None:
        raise ValueError(f"{option.shown}: the value is missing")
    return word


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The types that a word may become, the ones that any word fits last."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        members = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return tuple(sorted(members, key=lambda kind: (kind is str or kind is Path, kind is Path)))
    return (hint,)


def _told(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(kind)))}"
    return {int: "a whole number", float: "a number", bool: "yes or no"}.get(kind, str(kind))
