"""Our totals beside other people's: every difference, with the figures of both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from penstock.frames.types import polars_type
from penstock.net.columns import DEFAULT, TYPES
from penstock.net.decoding import decode_block
from penstock.net.flows import FLOW_KEY, flow_key
from penstock.net.opening import NotACapture, opened

_TOTALS = re.compile(r"^\S[^\t]*\t(\d+)\s+(\d+)\s+(\d+)\s*$")
_ANSWER = ".out"


@dataclass(frozen=True, slots=True)
class Totals:
    """Packets and bytes of decodable IP packets, and the flows that they make."""

    packets: int
    bytes: int
    flows: int

    def __str__(self) -> str:
        return f"{self.packets} packets, {self.bytes} bytes, {self.flows} flows"


@dataclass(frozen=True, slots=True)
class Difference:
    """A capture for which two tools differ, and what may explain it."""

    capture: str
    ours: Totals
    theirs: Totals
    later_fragments: int
    malformed: int

    @property
    def is_in_packets(self) -> bool:
        """Whether packets or bytes differ."""
        return (self.ours.packets, self.ours.bytes) != (self.theirs.packets, self.theirs.bytes)

    @property
    def is_in_flows(self) -> bool:
        """Whether the number of flows differs."""
        return self.ours.flows != self.theirs.flows

    def __str__(self) -> str:
        return (
            f"{self.capture}: {self.ours}; theirs {self.theirs} "
            f"({self.later_fragments} later fragments, {self.malformed} malformed)"
        )


def captures_with_answers(folder: Path) -> list[Path]:
    """The captures of a folder that have a report of nDPI's, ``NAME.out``, beside them."""
    answered = (
        path.with_name(path.name.removesuffix(_ANSWER)) for path in sorted(folder.glob(f"*{_ANSWER}"))
    )
    return [capture for capture in answered if capture.is_file()]


def ndpi_report(capture: Path) -> str:
    """nDPI's report on a capture."""
    return capture.with_name(capture.name + _ANSWER).read_text(errors="replace")


def ndpi_totals(report: str) -> Totals:
    """The totals of an ``.out`` file of nDPI's tests: the sums over its table of protocols."""
    rows = [found for line in report.splitlines() if (found := _TOTALS.match(line))]
    return Totals(*(sum(int(row[column]) for row in rows) for column in (1, 2, 3)))


def packets_of(capture: Path) -> pl.DataFrame:
    """All packets of a capture; none of a file that is no capture."""
    frames = [pl.DataFrame(schema={name: polars_type(TYPES[name]) for name in DEFAULT})]
    try:
        with opened(str(capture)) as (walk, _):
            frames += [decode_block(block, DEFAULT) for block in walk.blocks() if len(block)]
    except NotACapture:
        pass  # no packets: that is what is compared
    return pl.concat(frames)


def compare_with_ndpi(captures: Iterable[Path]) -> list[Difference]:
    """The captures whose totals differ from the report ``NAME.out`` beside them."""
    differences = []
    for capture in captures:
        theirs = ndpi_totals(ndpi_report(capture))
        packets = packets_of(capture).filter(pl.col("ip_version") > 0)
        size = int(packets["captured"].cast(pl.Int64).sum())
        ours = Totals(packets.height, size, flow_key(packets).select(FLOW_KEY).n_unique())
        if ours != theirs:
            fragments = int((packets["fragment_offset"] > 0).sum())
            malformed = int((packets["reason"] > 0).sum())
            differences.append(Difference(capture.name, ours, theirs, fragments, malformed))
    return differences
