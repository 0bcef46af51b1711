"""Plain one-event functions, for logic where speed does not matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.topology.schema import Schema


@dataclass(frozen=True)
class PerEvent:
    """A function of one event given as a dict. See ``per_event``."""

    function: Callable[[dict[str, Any]], Any]
    returns: Schema | None


def per_event(
    function: Callable[[dict[str, Any]], Any], *, returns: Mapping[str, Any] | Schema | None = None
) -> PerEvent:
    """Wrap a one-event function for ``map`` (dict → dict), ``filter`` (dict → bool) or
    ``flat_map`` (dict → several dicts).

    It costs about a microsecond per event and column: vectorise what is hot.
    """
    return PerEvent(function, None if returns is None else Schema.of(returns))
