"""Compare the state that a run has left with the state of the reference run, slice by slice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from penstock.control.run_directory import RunDirectory
from penstock.engine.saving import WAYS
from penstock.engine.state_log import Head, Shelf
from penstock.frames.slices import addresses
from penstock.spark.state_reader import Values, active_session, read_logs
from penstock.testing.chaos.oracle import multiset
from penstock.testing.engine import MemoryShelf, ReferenceRun
from penstock.topology.graph import Node
from penstock.topology.specs import ProcessSpec

_HEAD = -1


def state_differs(run: RunDirectory, reference: ReferenceRun) -> str:
    """Return the first slice whose state is not the reference run's; nothing if all are.

    Outputs alone do not show state that is wrong for keys that no later event has asked for.
    """
    spark = active_session()
    if spark is None or reference.program.natives:  # no JVM in this process; state of Spark's own nodes
        return ""
    logs = read_logs(run, spark)
    for node in reference.program.hosted.values():
        if isinstance(node.spec, ProcessSpec):
            for slice_, address in enumerate(addresses(node.name, node.parallelism).tolist()):
                got = _contents(node, _shelf(logs.pop(address, {})))
                wanted = _contents(node, reference.shelf_of(node, slice_))
                if got != wanted:
                    place = f"'{node.name}', slice {slice_}"
                    return f"state of {place}, is {_shown(got)} instead of {_shown(wanted)}"
    return f"state of {len(logs)} slices that no node has was not freed" if logs else ""


def _shelf(values: Values) -> MemoryShelf:
    shelf = MemoryShelf()
    for number, value in values.items():
        if number == _HEAD:
            shelf.put_head(value)
        else:
            shelf.put(number, value)
    return shelf


def _contents(node: Node, shelf: Shelf) -> Any:
    """Return what a slice's log holds, in a form that compares; None for a slice that holds nothing."""
    packed = shelf.head()
    if packed is None:
        return None
    head = Head.unpack(packed)
    exported = WAYS[head.way](node.spec.operator).exported(shelf, head)  # type: ignore[attr-defined]
    return _comparable(exported) or None


def _comparable(value: Any) -> Any:
    if isinstance(value, pl.DataFrame):
        return multiset(value)
    if isinstance(value, Mapping):
        return {name: found for name, inner in value.items() if (found := _comparable(inner))}
    return value


def _shown(contents: Any) -> str:
    text = repr(contents)
    return text if len(text) < 200 else f"{text[:200]}…"
