"""Run a topology from a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.topology.stream import Topology

if TYPE_CHECKING:
    from penstock.spark.runner import Handle


def start(topology: Topology, **options: Any) -> Handle:
    """Start a topology on Spark and give a handle to watch, change and stop it.

    The options are the fields of ``RunOptions``.
    """
    from penstock.spark.options import RunOptions
    from penstock.spark.runner import start as start_on_spark

    return start_on_spark(topology, RunOptions(**options))


def run(topology: Topology, **options: Any) -> None:
    """Run a topology with the live view until it ends or Ctrl-C is pressed."""
    from penstock.cli.running import run_topology

    run_topology(topology, **options)
