"""Leads streams into the operators that take events in the order of their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument
from penstock.operators.dedupe import Dedupe
from penstock.operators.event_time import columns_of
from penstock.operators.operator import Operator
from penstock.operators.restore_order import RestoreOrder
from penstock.operators.top_k import TopK

if TYPE_CHECKING:
    from penstock.operators.windows import Duration
    from penstock.topology.stream import Stream

Names = str | Sequence[str]


def dedupe(
    stream: Stream, name: str, by: Names, *, within: Duration, time: str, parallelism: int | None
) -> Stream:
    """Lead a stream into a dedupe; see ``Stream.dedupe``."""
    where = f"node '{name}'"
    keys = columns_of(by, where=where, what="by")
    if not keys:
        raise BadArgument(where=where, what="by", got="none", allowed="one or more columns")
    operator = Dedupe(keys, microseconds(within, where=where, what="within"), time)
    return _keyed(stream, name, keys, operator, parallelism)


def restore_order(stream: Stream, name: str, *, by: Names, time: str) -> Stream:
    """Lead a stream into an order; see ``Stream.restore_order``."""
    return _keyed(stream, name, columns_of(by, where=f"node '{name}'", what="by"), RestoreOrder(time), None)


def top_k(
    stream: Stream, name: str, k: int, *, by: str, group: Names, time: str, parallelism: int | None
) -> Stream:
    """Lead a stream into a ranking; see ``Stream.top_k``."""
    where = f"node '{name}'"
    if k < 1:
        raise BadArgument(where=where, what="k", got=k, allowed="1 or more")
    groups = columns_of(group, where=where, what="group")
    return _keyed(stream, name, groups, TopK(k, by, groups, time), parallelism)


def _keyed(
    stream: Stream, name: str, keys: tuple[str, ...], operator: Operator, parallelism: int | None
) -> Stream:
    routed = stream.key_by(*keys) if keys else stream.to_one()
    return routed.process(name, operator, parallelism=parallelism)
