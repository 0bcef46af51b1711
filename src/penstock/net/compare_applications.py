"""Our verdicts beside nDPI's own: every flow about which the two differ."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from penstock.net.addresses import ip_halves, ip_text
from penstock.net.applications import Applications, application_key
from penstock.net.columns import DEFAULT
from penstock.net.compare import ndpi_report
from penstock.net.decoding import decode_block
from penstock.net.opening import NotACapture, opened

_FLOW = re.compile(
    r"^\t\d+\t(?P<transport>\S+) (?P<src>\S+):(?P<src_port>\d+) <?-> (?P<dst>\S+):(?P<dst_port>\d+) .*?"
    r"\[proto: (?:\w+:)?[\d.]+/(?P<application>[^\]]+)\].*?\[Confidence: (?P<confidence>[^\]]+)\]"
)
Ends = tuple[tuple[tuple[int, int], int], tuple[tuple[int, int], int]]


@dataclass(frozen=True, slots=True)
class Judged:
    """A flow and what it was taken for."""

    ends: Ends
    application: str
    confidence: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A flow that two engines take for different applications."""

    capture: str
    flow: str
    ours: str
    theirs: str
    our_confidence: str
    is_same_protocol: bool
    """Both see the same protocol, and differ in the service that it carries."""

    def __str__(self) -> str:
        return f"{self.capture}: {self.flow}: {self.ours} ({self.our_confidence}), theirs {self.theirs}"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Flows whose application nDPI saw in the payload, and those of them that we see otherwise."""

    flows: int
    differences: tuple[Disagreement, ...]

    @property
    def ratio(self) -> float:
        """The share of flows with the same application."""
        return 1 - len(self.differences) / max(1, self.flows)

    @property
    def protocol_ratio(self) -> float:
        """The share of flows with the same protocol, whatever service it carries."""
        other = sum(not difference.is_same_protocol for difference in self.differences)
        return 1 - other / max(1, self.flows)


def ndpi_flows(report: str, confidence: str = "DPI") -> Iterator[Judged]:
    """The flows of an ``.out`` file of nDPI's tests whose application has this confidence."""
    for line in report.splitlines():
        if (found := _FLOW.match(line)) and found["confidence"] == confidence:
            ends = [(_halves(found[end].strip("[]")), int(found[f"{end}_port"])) for end in ("src", "dst")]
            yield Judged(_ends(*ends), found["application"], confidence)


def our_flows(capture: Path, operator: Applications) -> Iterator[Judged]:
    """The flows of a capture as an operator judges them."""
    state, emit = operator.init_state(), _Kept()
    for packets in _packets(capture):
        operator.process(application_key(packets), state, emit)
    operator.on_punctuation(dt.datetime.max, state, emit)
    names = [f"{end}_{name}" for end in ("src", "dst") for name in ("ip_high", "ip_low", "port")]
    for rows in emit.flows:
        for a_high, a_low, a_port, b_high, b_low, b_port, application, confidence in rows.select(
            *names, "application", "confidence"
        ).iter_rows():
            ends = _ends(((a_high, a_low), a_port), ((b_high, b_low), b_port))
            yield Judged(ends, application, confidence)


def compare_applications(captures: Iterable[Path], operator: Applications) -> Agreement:
    """Compare an operator with the reports ``NAME.out`` beside captures, flow by flow.

    A flow that we do not have counts as a difference.
    """
    flows, differences = 0, []
    for capture in captures:
        ours = {judged.ends: judged for judged in our_flows(capture, operator)}
        for theirs in ndpi_flows(ndpi_report(capture)):
            flows += 1
            found = ours.get(theirs.ends, Judged(theirs.ends, "no such flow", "Unknown"))
            if found.application != theirs.application:
                differences.append(_difference(capture.name, found, theirs))
    return Agreement(flows, tuple(differences))


def _halves(address: str) -> tuple[int, int]:
    """An address as nDPI writes it: of several "::" all but one stand for a single zero."""
    parts = address.split("::")
    for real in range(1, len(parts) - 1 if len(parts) > 2 else 0):
        tried = ":0:".join(parts[:real]) + "::" + ":0:".join(parts[real:])
        with suppress(ValueError):
            return ip_halves(tried.strip(":") + "::" if tried.endswith("::") else tried)
    if len(parts) > 2:
        return ip_halves(":0:".join(parts[:-1]) + "::" + parts[-1])
    return ip_halves(address)


def _difference(capture: str, ours: Judged, theirs: Judged) -> Disagreement:
    flow = " - ".join(f"{_address(*halves)}:{port}" for halves, port in theirs.ends)
    protocol = ours.application.partition(".")[0] == theirs.application.partition(".")[0]
    return Disagreement(capture, flow, ours.application, theirs.application, ours.confidence, protocol)


def _address(high: int, low: int) -> str:
    halves = [pl.Series([half], dtype=pl.UInt64) for half in (high, low)]
    return str(ip_text(*halves)[0])


def _ends(a: tuple[tuple[int, int], int], b: tuple[tuple[int, int], int]) -> Ends:
    first, second = sorted((a, b))
    return first, second


def _packets(capture: Path) -> Iterator[pl.DataFrame]:
    try:
        with opened(str(capture)) as (walk, _):
            for block in walk.blocks():
                if len(block):
                    yield decode_block(block, (*DEFAULT, "packet"))
    except NotACapture:
        return


class _Kept:
    """Keeps what an operator emits."""

    def __init__(self) -> None:
        self.flows: list[pl.DataFrame] = []

    def __call__(self, rows: pl.DataFrame) -> None:
        self.flows.append(rows)

    def to(self, output: str, rows: pl.DataFrame) -> None: ...

    def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None: ...

    def columns(self, output: str = "out") -> Any:
        from penstock.topology.schema import Schema

        return Schema()
