"""What a run should have given, from the reference engine, and how what it gave differs from that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from penstock.connect.collect import Collect
from penstock.connect.delta import Delta
from penstock.connect.delta_types import storable
from penstock.connect.json_lines import JsonLines
from penstock.connect.parquet import ParquetFiles
from penstock.connect.sink import Sink
from penstock.connect.source import Offset
from penstock.control.run_directory import RunDirectory
from penstock.errors import BadArgument
from penstock.testing.engine import Epoch, ReferenceRun
from penstock.topology.specs import SinkSpec
from penstock.topology.stream import Topology

Rows: TypeAlias = Mapping[str, pl.DataFrame]
"""Of sinks, by their names."""
Log: TypeAlias = Mapping[int, Mapping[str, Any]]
"""The offsets of epochs by their numbers, in order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How a sink's rows differ from what they should be, as multisets."""

    lost: int = 0
    """Rows that are missing."""
    doubled: int = 0
    """Rows that are there more often than they should be."""
    wrong: int = 0
    """Rows that should not be there at all."""

    def __add__(self, other: Difference) -> Difference:
        return Difference(self.lost + other.lost, self.doubled + other.doubled, self.wrong + other.wrong)

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.wrong)


def compare(expected: pl.DataFrame, got: pl.DataFrame) -> Difference:
    """Count what is lost, doubled and wrong.

    >>> compare(pl.DataFrame({"n": [1, 2, 3]}), pl.DataFrame({"n": [1, 1, 4]}))
    Difference(lost=2, doubled=1, wrong=1)
    """
    if expected.height and got.height:
        got = got.select(expected.columns)
    wanted, found = multiset(expected), multiset(got)
    extra = found - wanted
    return Difference(
        lost=(wanted - found).total(),
        doubled=sum(count for row, count in extra.items() if row in wanted),
        wrong=sum(count for row, count in extra.items() if row not in wanted),
    )


def expected_of(versions: Mapping[int, Topology], log: Log, hops: int | None) -> ReferenceRun:
    """The run on the reference engine, with the epochs of the offset log, to the end of its input.

    The log says only how the input was cut and which version an epoch had: what is read, and that nothing is
    left out, is the reference engine's own.
    """
    first = min(versions)
    reference = LoggedRun(versions[first], version=first, hops=hops)
    replay(reference, versions, log)
    reference.finish()
    return reference


def hops_of(directory: RunDirectory) -> int | None:
    """Return the number of exchanges in a run's fabric: it decides which state has to change its hop."""
    fabric = directory.fabric()
    return None if fabric is None else fabric["hops"]


@dataclass
class LoggedRun(ReferenceRun):
    """A reference run whose epochs end where a log says."""

    def __post_init__(self) -> None:
        ReferenceRun.__post_init__(self)
        self.ends: Mapping[str, Offset] = {}
        self.bounds: Mapping[str, int] = {}
        """The latest times that events may have, as the log's epoch has them."""

    def finish(self) -> None:
        """Read what the log has left over."""
        self.ends, self.bounds = {}, {}
        self.drain()

    def _range(self, name: str, cut: Epoch) -> tuple[Offset, Offset]:
        start, end = super()._range(name, cut)
        return start, self.ends.get(name, end)

    def _bound(self, name: str) -> int | None:
        return self.bounds.get(name)


def replay(
    reference: LoggedRun,
    versions: Mapping[int, Topology],
    log: Log,
    *,
    first: int = 0,
    last: int | None = None,
) -> None:
    """Run the epochs that a log holds, from the first to the last one wanted."""
    for epoch, offset in log.items():
        if epoch < first or (last is not None and epoch > last):
            continue
        wanted = offset.get("exports", offset["version"])
        # Also versions that no epoch ran: each one decides which hops the next one finds its nodes in.
        for version in range(reference.version + 1, wanted + 1):
            if version in versions:
                reference.change(versions[version])
        reference.ends = offset["sources"]
        reference.bounds = offset["punctuation"].get("bounds", {})
        reference.step()
        reference.version = wanted


def differences(
    versions: Mapping[int, Topology], directory: RunDirectory, reference: ReferenceRun
) -> dict[str, Difference]:
    """Of every sink, by its name; and of the count of events, which must be neither more nor less."""
    found = compare_rows(versions[reference.version], directory, reference.result())
    last = directory.last_progress()
    told = last.total_events if last else 0
    return {**found, "(events told)": Difference(wrong=int(told != events_of(reference)))}


def compare_rows(topology: Topology, directory: RunDirectory, expected: Rows) -> dict[str, Difference]:
    """How what the sinks of a topology hold differs from what they should."""
    sinks = {name: topology.graph[name].spec.sink for name in expected}  # type: ignore[attr-defined]
    return {
        name: compare(_as_kept(sinks[name], rows), rows_of(sinks[name], directory, name))
        for name, rows in expected.items()
    }


def rows_of_sinks(topology: Topology, directory: RunDirectory) -> Rows:
    """Return the rows that each sink of a topology shows."""
    sinks = {node.name: node.spec.sink for node in topology.graph if isinstance(node.spec, SinkSpec)}
    return {name: rows_of(sink, directory, name) for name, sink in sinks.items()}


def events_of(reference: ReferenceRun) -> int:
    """Rows that its sources gave."""
    return sum(reference.counters.nodes[name]["rows_out"] for name in reference.program.sources)


def rows_of(sink: Sink, directory: RunDirectory, name: str) -> pl.DataFrame:
    """All rows that a sink shows."""
    if isinstance(sink, Collect):
        return Collect.read(directory.path, name)
    if isinstance(sink, ParquetFiles):
        return sink.read()
    if isinstance(sink, Delta):
        exists = Path(sink.path, "_delta_log").exists()
        return pl.read_delta(sink.path) if exists else pl.DataFrame()
    if isinstance(sink, JsonLines):
        parts = [pl.read_ndjson(path) for path in sorted(Path(sink.path).glob("*.jsonl"))]
        return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()
    read = getattr(sink, "read", None)
    if read is None:
        raise BadArgument(
            where=f"sink '{name}'",
            what="its rows",
            got=f"no way to read {type(sink).__name__}",
            allowed="Delta, Parquet, JsonLines, Collect, or a sink with a method read() that gives its rows",
        )
    rows: pl.DataFrame = read()
    return rows


def _as_kept(sink: Sink, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the types in which a sink keeps them."""
    if isinstance(sink, Delta):
        return storable(rows)
    if isinstance(sink, JsonLines) and rows.height:
        return pl.read_ndjson(rows.write_ndjson().encode())
    return rows


def multiset(rows: pl.DataFrame) -> Counter[Any]:
    """Count how often each row is there."""
    return Counter(map(_hashable, rows.rows()))


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return tuple(sorted((name, _hashable(inner)) for name, inner in value.items()))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
