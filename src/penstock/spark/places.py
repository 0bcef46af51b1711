"""Which executor has the state of which slices, and how to have some of it moved.

Spark notes for each of its state stores the executor that had it last, and runs the task of that store there.
A store that is noted for another executor is opened there in the next epoch, from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import SparkContext

from penstock.spark.runner import SPARK_IS_GONE, Handle

_WAIT = "spark.locality.wait.process"


def executors() -> dict[str, str]:
    """The executors that Spark has now, and the host of each; the driver is none."""
    return {summary.id(): summary.hostPort().rpartition(":")[0] for summary in _summaries()}


def that_have_worked() -> frozenset[str]:
    """The executors that have ended a task."""
    return frozenset(summary.id() for summary in _summaries() if summary.completedTasks())


def places(handle: Handle) -> frozenset[str]:
    """The executors that have state of a run."""
    coordinator = _coordinator(handle)
    return frozenset(
        _executor_of(coordinator, store) for stores in _stores(handle) for store in stores.values()
    )


def forget_places(handle: Handle) -> None:
    """Let the tasks of the next epoch go to whatever executors are free."""
    _coordinator(handle).deactivateInstances(handle.query._jsq.runId())


@contextmanager
def waiting_for_places(wait: str) -> Iterator[None]:
    """Let a task wait so long for the executor that has its state, before it goes to another that is free.

    Spark reads this setting again for the tasks of each stage.
    """
    settings = SparkContext.getOrCreate()._jsc.sc().conf()
    usual = settings.get(_WAIT, settings.get("spark.locality.wait"))
    settings.set(_WAIT, wait)
    try:
        yield
    finally:
        with suppress(*SPARK_IS_GONE):
            settings.set(_WAIT, usual)


def give_shares(handle: Handle) -> bool:
    """Have as much state moved as it takes for each executor to have its share; False if all have theirs.

    What an epoch has opened already stays there for this time: look again after the next.
    """
    hosts, coordinator = executors(), _coordinator(handle)
    none = _jvm().PythonUtils.toSeq([])
    has_moved = False
    for stores in _stores(handle):
        had = {number: _executor_of(coordinator, store) for number, store in stores.items()}
        for number, name in fair_moves(had, sorted(hosts)).items():
            coordinator.reportActiveInstance(stores[number], hosts[name], name, none)
            has_moved = True
    return has_moved


def fair_moves(places: Mapping[int, str], names: list[str]) -> dict[int, str]:
    """Which stores go where, so that each executor has its share: as few as that takes.

    >>> fair_moves({0: "a", 1: "a", 2: "a", 3: "b"}, ["a", "b", "c"])
    {2: 'c'}
    """
    had: dict[str, list[int]] = {name: [] for name in names}
    for store, name in sorted(places.items()):
        had.get(name, []).append(store)
    moves: dict[int, str] = {}
    for name in names:
        while len(had[name]) < len(places) // len(names):
            richest = max(had.values(), key=len)
            if len(richest) - len(had[name]) < 2:  # the others have gone with their executor: free anyway
                break
            had[name].append(richest.pop())
            moves[had[name][-1]] = name
    return moves


def _summaries() -> list[Any]:
    found = SparkContext.getOrCreate()._jsc.sc().statusStore().executorList(True)
    summaries = [found.apply(i) for i in range(found.size())]
    return [summary for summary in summaries if summary.id() != "driver"]


def _jvm() -> Any:
    return SparkContext.getOrCreate()._jvm


def _coordinator(handle: Handle) -> Any:
    return handle.query._jsq.sparkSession().streams().stateStoreCoordinator()


def _stores(handle: Handle) -> Iterator[dict[int, Any]]:
    """The state stores of each hop by their partition, as the checkpoint has them."""
    query, state = handle.query._jsq, _jvm().org.apache.spark.sql.execution.streaming.state
    root = query.streamingQuery().checkpointFile("state")
    for hop in sorted((handle.directory / "checkpoint" / "state").glob("[0-9]*")):
        numbers = [int(folder.name) for folder in hop.glob("[0-9]*")]
        yield {
            number: state.StateStoreProviderId(
                state.StateStoreId(root, int(hop.name), number, "default"), query.runId()
            )
            for number in numbers
        }


def _executor_of(coordinator: Any, store: Any) -> str:
    """The executor that a store is noted for; "" if none."""
    place = coordinator.getLocation(store)
    return place.get().rpartition("_")[2] if place.isDefined() else ""
