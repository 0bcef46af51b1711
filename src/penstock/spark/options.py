"""How a topology is run: one frozen value, read once at the edge and passed down."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from penstock.control.source_changes import Decision
from penstock.errors import BadArgument

Until = Literal["stopped", "finished", "caught-up"]
PARTITIONS_DIVIDE = 120


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where and how to run. The defaults suit one machine."""

    directory: Path | None = None
    """What must outlive the run; default ``.penstock/<topology name>``."""
    master: str = "local[*]"
    partitions: int | None = None
    """State partitions, a divisor of 120; default: what the cores can serve."""
    hops: int | None = None
    """Exchanges in the fabric; more than the topology needs leaves room for changes."""
    every: dt.timedelta | None = None
    """The least time between the starts of two epochs; default: none."""
    until: Until = "stopped"
    """When to end: when stopped, when all sources have ended, or when nothing is left to read."""
    memory: str = "1g"
    """Heap of Spark's driver, which on one machine does all the work."""
    allow_state_loss: bool = False
    """Start a changed topology although nodes lose their state by it."""
    sources: Mapping[str, Decision] = field(default_factory=dict)
    """What becomes of sources that read another place than before: "continue" or "anew", by name."""
    apply: bool = False
    """Apply the topology although the run's current version came from elsewhere, which reverts that one."""
    app: str | None = None
    """What proposes the topology; default: the path of the script that runs."""
    take_over: bool = False
    """Start although another runner holds the directory: it is refused at its next commit."""
    stall_after: dt.timedelta | None = None
    """When to report an epoch that has not ended; default: after ten usual epochs, a minute at least."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Further settings of Spark."""

    def __post_init__(self) -> None:
        if self.partitions is not None and (self.partitions < 1 or PARTITIONS_DIVIDE % self.partitions):
            raise BadArgument(
                where="run options",
                what="partitions",
                got=self.partitions,
                allowed="a divisor of 120 (1, 2, 3, 4, 5, 6, 8, 10, 12, …), so that slices spread evenly",
            )
        if self.hops is not None and not 1 <= self.hops <= 16:
            raise BadArgument(where="run options", what="hops", got=self.hops, allowed="1 to 16")
        if self.until not in ("stopped", "finished", "caught-up"):
            raise BadArgument(
                where="run options",
                what="until",
                got=repr(self.until),
                allowed="stopped, finished, caught-up",
            )


def run_directory(topology: str, options: RunOptions) -> Path:
    """Where a topology of this name keeps what must outlive its run."""
    return (options.directory or Path(".penstock") / topology).resolve()


def partitions_for(cores: int) -> int:
    """The largest divisor of 120 that is not more than the cores."""
    return max(
        n for n in range(1, PARTITIONS_DIVIDE + 1) if PARTITIONS_DIVIDE % n == 0 and n <= max(1, cores)
    )
