"""What is checked: a topology with its input. The reference engine knows what it should give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.topology.stream import Topology

if TYPE_CHECKING:
    import polars as pl


AS_SHIPPED = {
    "spark.sql.streaming.minBatchesToRetain": None,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
}
"""Leave the number of epochs that Spark's logs keep as users have it; other checks keep all.

Each version of the state becomes a snapshot, so that old ones are deleted within the run too.
"""


@dataclass(frozen=True, slots=True)
class Check:
    """A topology that faults are let loose on.

    ``build`` gets an empty folder, puts input into it if the topology reads files, and gives the topology,
    which must write below that folder too. It is called once for each schedule.

    >>> import polars as pl
    >>> import penstock as ps
    >>> def numbers(first, count):
    ...     return pl.DataFrame({"n": range(first, first + count)}, schema={"n": pl.Int64})
    >>> def build(folder):
    ...     top = ps.Topology("numbers")
    ...     source = ps.Generator(numbers, schema={"n": int}, rows=1_000)
    ...     stream = top.source("numbers", source, rows_per_epoch=200)
    ...     stream.filter("even", pl.col("n") % 2 == 0).sink("table", ps.Delta(folder / "table"))
    ...     return top
    >>> check = Check("even-numbers", build)
    >>> print(check.name, [node.name for node in check.build(Path("anywhere")).graph])
    even-numbers ['numbers', 'even', 'table']
    """

    name: str
    build: Callable[[Path], Topology]
    """Sources must be bounded, unless there is a ``feed``."""
    feed: Callable[[Path, int], None] | None = None
    """Adds input to the folder when the run has caught up: called with 1, then with 2."""
    changes: tuple[Callable[[Path], Topology], ...] = ()
    """Other versions of the same topology, which scenarios that change it take in turn."""
    closed_form: Callable[[Mapping[str, pl.DataFrame]], str] | None = None
    """Gets the rows of each sink and returns what is amiss, or nothing. It must not use what it checks."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of RunOptions that the check needs: spare hops, settings of Spark."""

    stretch: int = 1
    """Faults come so many times later: a long run is to be hit when its logs have been cleared."""
    commits_files: bool = False
    """Whether a sink of it commits by renaming files in Python, so that a fault can come in between."""

    @property
    def feeds(self) -> int:
        return 2 if self.feed is not None else 0
