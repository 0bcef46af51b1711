"""Our totals beside other people's: every difference, with the figures of both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from penstock.net.decoding import decode_block
from penstock.net.opening import NotACapture, opened

_TOTALS = re.compile(r"^\S[^\t]*\t(\d+)\s+(\d+)\s+(\d+)\s*$")
_COLUMNS = ("ip_version", "captured", "fragment_offset", "reason")


@dataclass(frozen=True, slots=True)
class Totals:
    """Packets and bytes of decodable IP packets."""

    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A capture for which two tools differ, and what may explain it."""

    capture: str
    ours: Totals
    theirs: Totals
    later_fragments: int
    malformed: int

    def __str__(self) -> str:
        return (
            f"{self.capture}: {self.ours.packets} packets and {self.ours.bytes} bytes, "
            f"theirs {self.theirs.packets} and {self.theirs.bytes} "
            f"({self.later_fragments} later fragments, {self.malformed} malformed)"
        )


def ndpi_totals(report: str) -> Totals:
    """The totals of an ``.out`` file of nDPI's tests: the sums over its table of protocols."""
    rows = [found for line in report.splitlines() if (found := _TOTALS.match(line))]
    return Totals(sum(int(row[1]) for row in rows), sum(int(row[2]) for row in rows))


def our_packets(capture: Path) -> pl.DataFrame:
    """What the comparison needs of all packets of a capture."""
    frames = [
        pl.DataFrame(
            schema={
                "ip_version": pl.UInt8,
                "captured": pl.UInt32,
                "fragment_offset": pl.UInt16,
                "reason": pl.UInt8,
            }
        )
    ]
    try:
        with opened(str(capture)) as (walk, _):
            frames += [decode_block(block, _COLUMNS) for block in walk.blocks() if len(block)]
    except NotACapture:
        pass  # no packets: that is what is compared
    return pl.concat(frames)


def compare_with_ndpi(captures: Iterable[Path]) -> list[Difference]:
    """The captures whose totals differ from the report ``NAME.out`` beside them."""
    differences = []
    for capture in captures:
        theirs = ndpi_totals(capture.with_name(capture.name + ".out").read_text(errors="replace"))
        packets = our_packets(capture).filter(pl.col("ip_version") > 0)
        ours = Totals(packets.height, int(packets["captured"].cast(pl.Int64).sum()))
        if ours != theirs:
            fragments = int((packets["fragment_offset"] > 0).sum())
            malformed = int((packets["reason"] > 0).sum())
            differences.append(Difference(capture.name, ours, theirs, fragments, malformed))
    return differences
