"""Start a run, show it, and say at the end where the results are."""

from __future__ import annotations

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.cli.live import summary, watch
from penstock.errors import BadArgument

if TYPE_CHECKING:
    from penstock.control.live_table import Followed, LiveTable
    from penstock.spark.options import Until
    from penstock.topology.stream import Topology

QUIT = 130  # what a shell reports for a program that Ctrl-C ended


def run_topology(topology: Topology, live: LiveTable | None = None, **options: Any) -> None:
    """Run with the live view until it ends by itself or Ctrl-C ends it; options are those of RunOptions.

    The driver is a process of its own, which is started again when it dies. It runs what the run directory
    says; the topology is proposed to that once, before the first driver starts.
    """
    from penstock.control.driving import Request
    from penstock.control.restarting import RestartPolicy
    from penstock.control.supervisor import SupervisedRun
    from penstock.plan.passes import plan
    from penstock.spark.options import RunOptions, run_directory
    from penstock.topology.stream import Topology

    console = Console()
    chosen = RunOptions(**options)
    followed = live.follow(topology) if live else None
    console.print(f"penstock: starting '{topology.name}' on {chosen.master}", markup=False, highlight=False)
    plan(topology)  # what is wrong with it is said before a process is started
    directory = run_directory(topology.name, chosen)
    # A run without an end is worth a second driver that waits; a bounded one is not.
    request = Request(topology, directory, chosen, RestartPolicy(), standby=chosen.until == "stopped")
    try:
        with SupervisedRun(request) as run:
            adoption = None
            with suppress(
                OSError
            ):  # a disk that is full or away is waited for, as long as the run has patience
                adoption = run.adopt()
            if adoption is not None and adoption.proposed is not None:
                topology = Topology(topology.name, adoption.plan.program.graph)  # what runs instead
                followed = _followed(live, topology)
            seen = watch(run, topology.name, table=followed, console=console)
            text = summary(topology.name, seen, run.directory, results(topology))
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        console.print("penstock: quit at once; the next run repeats the unfinished epoch", highlight=False)
        sys.stdout.flush()
        sys.exit(QUIT)


def _followed(live: LiveTable | None, topology: Topology) -> Followed | None:
    """Return what shows the live table of a version that may not have it."""
    if live is None:
        return None
    try:
        return live.follow(topology)
    except BadArgument:
        return None


def natural_end(topology: Topology) -> Until:
    """When a run ends if nobody says: with its sources, if they do."""
    from penstock.topology.specs import SourceSpec

    sources = [node.spec.source for node in topology.graph if isinstance(node.spec, SourceSpec)]
    return "finished" if all(source.has_end for source in sources) else "stopped"


def results(topology: Topology) -> list[str]:
    """One line per sink: its name and where it writes."""
    from penstock.topology.specs import SinkSpec

    return [
        f"{node.name}: {node.spec.sink.describe()}"
        for node in topology.graph
        if isinstance(node.spec, SinkSpec)
    ]


def run_demo(directory: Path, *, seconds: int, rate: int) -> None:
    """Run the demo from its beginning and say how to look at what it wrote."""
    from penstock.apps import demo

    for name in (*demo.TABLES, "run"):  # only what an earlier demo made
        shutil.rmtree(directory / name, ignore_errors=True)
    topology = demo.topology(directory, seconds=seconds, rate=rate)
    print(demo.STORY, end="\n\n")
    run_topology(topology, demo.LIVE, directory=directory / "run", until="finished")
    print(f"\n{demo.look(directory, _python())}")


def _python() -> str:
    """The Python that has Penstock, as short as the shell accepts it from here."""
    here = Path(sys.executable)
    return str(here.relative_to(Path.cwd())) if here.is_relative_to(Path.cwd()) else str(here)
