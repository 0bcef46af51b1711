"""Packets of a network interface as a source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connect.source import BadRecord, Batch, Identity, Reject, Source, SourcePlanner, Split
from penstock.errors import BadArgument
from penstock.net.pcap import Pcap, Rows, Tunnels
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    import polars as pl

MOST_SNAP = 262_144
LEAST_SPOOL = 1 << 20


@dataclass(frozen=True, slots=True, init=False)
class Interface(Source):
    """Capture from a network interface, such as ``net.Interface("eth0")``. Linux only; needs CAP_NET_RAW.

    Packets go to pcap files in the run directory before anything else sees them, so every epoch can be
    repeated; files that were read are removed. When more than ``spool_bytes`` wait, because the topology is
    slower than the network, new packets are refused. Packets that the kernel dropped or the spool refused
    become bad records with their number. What passes while no run is on is not seen.

    ``snap_bytes`` is how much of each packet is kept; ``promiscuous`` also takes packets that are for others;
    ``bpf`` is a filter as ``tcpdump -ddd EXPRESSION`` prints it. ``columns``, ``rows``, ``tunnels``,
    ``lateness`` and ``ahead`` are those of `Pcap`.
    """

    interface: str
    packets: Pcap
    snap_bytes: int
    promiscuous: bool
    bpf: str | None
    spool_bytes: int

    def __init__(
        self,
        interface: str,
        *,
        columns: Sequence[str] | None = None,
        rows: Rows = "packets",
        tunnels: Tunnels = "inner",
        lateness: str | timedelta = "1s",
        snap_bytes: int = MOST_SNAP,
        promiscuous: bool = False,
        bpf: str | None = None,
        spool_bytes: int = 4 << 30,
        ahead: str | timedelta | None = "1h",
    ) -> None:
        for what, value, least, most in (
            ("snap_bytes", snap_bytes, 14, MOST_SNAP),
            ("spool_bytes", spool_bytes, LEAST_SPOOL, 1 << 60),
        ):
            if not least <= value <= most:
                allowed = f"a number from {least} to {most}"
                raise BadArgument(where="Interface", what=what, got=repr(value), allowed=allowed)
        times: dict[str, Any] = {"lateness": lateness, "ahead": ahead}
        packets = Pcap("spool", columns=columns, rows=rows, tunnels=tunnels, **times)
        values = {
            "interface": interface,
            "packets": packets.at("spool"),
            "snap_bytes": snap_bytes,
            "promiscuous": promiscuous,
            "bpf": bpf,
            "spool_bytes": spool_bytes,
        }
        for name, given in values.items():
            object.__setattr__(self, name, given)

    @property
    def schema(self) -> Schema:
        """The chosen columns, or those of counts."""
        return self.packets.schema

    @property
    def time(self) -> str | None:
        """The time of capture, unless it was left out."""
        return self.packets.time

    @property
    def identity(self) -> Identity:
        """Return the interface: offsets are places in the spool of its packets."""
        return Identity("Interface", self.interface)

    @property
    def lateness_us(self) -> int:
        """How far times may lag behind the greatest one before them."""
        return self.packets.lateness_us

    @property
    def ahead_us(self) -> int | None:
        """How far packets may be ahead of the clock."""
        return self.packets.ahead_us

    def undated(self, rows: pl.DataFrame, impossible: pl.Series) -> pl.DataFrame:
        """Return all packets, those with an impossible time without it and with the reason."""
        return self.packets.undated(rows, impossible)

    def attend(self, state_dir: Path) -> AbstractContextManager[Any]:
        """Capture for as long as the topology runs."""
        from penstock.net.live import LiveCapture

        return LiveCapture(self, state_dir)

    def planner(self, state_dir: Path) -> SourcePlanner:
        """Make the planner; the spool lies in ``state_dir``."""
        from penstock.net.interface_planner import InterfacePlanner

        return InterfacePlanner(self, state_dir)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        """Read pieces of the spool."""
        from penstock.net.reader import read_pieces

        for lost, why in split.body["lost"]:
            reject(BadRecord(split.position, self.interface, b"", f"{lost} packets were lost: {why}"))
        yield from read_pieces(self.packets, split, reject)

    def describe(self) -> str:
        """One line for people."""
        return f"Interface({self.interface}, {self.packets.rows})"
