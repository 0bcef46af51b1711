"""A user's own aggregate from plain Python functions, called per group and not per event."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import polars as pl

from penstock.errors import BadArgument
from penstock.frames.types import polars_type
from penstock.operators.aggregates import Aggregate, Parts
from penstock.topology.schema import type_name

Function = Callable[..., Any]


@dataclass(frozen=True)
class Fold(Aggregate):
    """See ``fold``. With ``merge`` the parts are accumulators; without it they are the events themselves."""

    columns: tuple[str, ...]
    init: Function
    add: Function
    done: Function
    merging: Function | None
    returns: str

    @property
    def combines(self) -> bool:  # type: ignore[override]
        """Accumulators travel instead of events if they can be merged."""
        return self.merging is not None

    def parts(self, time: pl.Expr) -> Parts:
        if self.merging is None:
            return {"of": pl.struct(self.columns)}
        return {"of": _per_group(self.columns, self._added)}

    def merge(self, part: Parts) -> Parts:
        if self.merging is None:
            return {"of": part["of"].explode(empty_as_null=False)}
        return {"of": _per_group([part["of"]], self._merged)}

    def result(self, part: Parts) -> pl.Expr:
        return part["of"].map_elements(self._done, return_dtype=polars_type(self.returns))

    def _added(self, columns: Sequence[pl.Series]) -> pl.Series:
        rows = pl.DataFrame(dict(zip(self.columns, columns, strict=True)))
        return _pickled(self.add(self.init(), rows) if rows.height else self.init())

    def _merged(self, parts: Sequence[pl.Series]) -> pl.Series:
        accumulators = [pickle.loads(part) for part in parts[0]] or [self.init()]
        return _pickled(reduce(self.merging, accumulators)) if self.merging else parts[0]

    def _done(self, part: Any) -> Any:
        if isinstance(part, bytes):
            return self.done(pickle.loads(part))
        rows = part.struct.unnest()
        return self.done(self.add(self.init(), rows.sort(pl.all())))


def fold(
    *columns: str,
    init: Function,
    add: Function,
    result: Function,
    returns: Any,
    merge: Function | None = None,
) -> Aggregate:
    """Your own aggregate: ``result(add(init(), events))``, where ``events`` is a frame of the columns.

    ``merge(a, b)`` makes one accumulator of two: events are then folded in the sender, and the state of a
    window is one accumulator. Without it the events are kept until the window closes, and ``add`` gets all
    of them, sorted by their values. An accumulator is anything that can be pickled; neither ``add`` nor
    ``merge`` may depend on order. ``returns`` is the type of the result.
    """
    if not columns:
        raise BadArgument(where="fold", what="columns", got="none", allowed="one or more names")
    return Fold(columns, init, add, result, merge, type_name(returns))


def _per_group(columns: Sequence[Any], function: Function) -> pl.Expr:
    return pl.map_groups(list(columns), function, return_dtype=pl.Binary(), returns_scalar=True)


def _pickled(value: Any) -> pl.Series:
    return pl.Series([pickle.dumps(value, protocol=5)], dtype=pl.Binary)
