"""The applications as checks of the chaos harness, each on a little generated input."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path

import penstock as ps
from penstock.apps import app_tracker, click_stream, flow_control, packet_counter, slow_paths, smart_pcc
from penstock.net import synth
from penstock.testing.chaos import Check
from penstock.topology import specs
from penstock.topology.graph import Graph, Node, Spec

_EPOCHS = 5
_SLICES = 6


def small(topology: ps.Topology, *, rows: int | None = None) -> ps.Topology:
    """The same topology with few slices; its sources give at most so many rows to an epoch, and at once."""
    nodes = [
        replace(node, spec=_in_epochs(node.spec, rows), parallelism=_few(node)) for node in topology.graph
    ]
    return ps.Topology(topology.name, Graph.of(topology.name, nodes))


def _few(node: Node) -> int:
    return min(node.parallelism, _SLICES)


def _in_epochs(spec: Spec, rows: int | None) -> Spec:
    if rows is None or not isinstance(spec, specs.SourceSpec):
        return spec
    source = copy(spec.source)
    if isinstance(source, ps.Generator):  # a clock that jumps back would have a paced one wait for hours
        object.__setattr__(source, "rate", None)
    return replace(spec, source=source, rows_per_epoch=rows, bytes_per_epoch=None)


def packet_counter_check(folder: Path) -> ps.Topology:
    """Captures, one in each epoch: so small ones are counted whole."""
    size = sum(_capture(folder, number, "0.2s") for number in range(_EPOCHS))
    top = packet_counter.topology(
        folder / "in", directory=folder / "out", bytes_per_epoch=size // _EPOCHS // 2
    )
    return small(top)


def app_tracker_check(folder: Path) -> ps.Topology:
    """A capture, a part of it in each epoch."""
    size = _capture(folder, 7, "1s")
    top = app_tracker.topology(folder / "in", directory=folder / "out", bytes_per_epoch=size // _EPOCHS)
    return small(top)


def smart_pcc_check(folder: Path) -> ps.Topology:
    """Generated subscribers."""
    top = smart_pcc.topology(subscribers=200, rows=5_000, rate=None, directory=folder / "out")
    return small(top, rows=2_500 // _EPOCHS)


def flow_control_check(folder: Path) -> ps.Topology:
    """Generated messages."""
    top = flow_control.topology(messages=1_000, rate=None, directory=folder / "out")
    return small(top, rows=36_000 // _EPOCHS)  # of the three sources the reports are most


def click_stream_check(folder: Path) -> ps.Topology:
    """A made-up site."""
    top = click_stream.topology(rows=5_000, directory=folder / "out")
    return small(top, rows=5_000 // _EPOCHS)


def slow_paths_check(folder: Path) -> ps.Topology:
    """Made-up servers, for a minute."""
    return small(slow_paths.topology(seconds=60, directory=folder / "out"), rows=1_500)


def _capture(folder: Path, seed: int, duration: str) -> int:
    """Write a small capture; gives its size in bytes."""
    path = folder / "in" / f"traffic-{seed}.pcap"
    path.parent.mkdir(parents=True, exist_ok=True)
    synth.write(path, synth.Traffic(subscribers=20, cells=4, rate=2_000, duration=duration, seed=seed))
    return path.stat().st_size


APPLICATIONS = (
    Check("packet-counter", packet_counter_check),
    Check("app-tracker", app_tracker_check),
    Check("smart-pcc", smart_pcc_check),
    Check("flow-control", flow_control_check),
    Check("click-stream", click_stream_check),
    Check("slow-paths", slow_paths_check),
)
