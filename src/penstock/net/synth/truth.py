"""What a generated capture holds, known from making it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.net.synth import _settings as s
from penstock.net.synth._draw import CELLS_PER_AREA, FIRST_AREA, describe, uses_version_1
from penstock.net.synth.catalogue import CONTROL_SCRIPTS, Table
from penstock.net.synth.message import REGISTERS, Register
from penstock.net.synth.script import MEDIA
from penstock.net.synth.windows import Plan

_MAPPED = 0xFFFF_0000_0000
_V6_SERVERS = 0x2001_0DB8_FFFF_0000
_R = Register


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """What was written.

    ``flows`` has a row per conversation of a subscriber, with the columns of `net.Flows` and its
    ``application``, ``label`` (the protocol), ``host``, ``imsi``; ``applications``, ``subscribers`` and
    ``cells`` (by where the subscriber was when a packet passed) hold packets and bytes; ``sessions`` has a
    row per subscriber with GTP. Packets are frames in the capture: a fragment is one, a lost packet is none.
    """

    packets: int
    bytes: int
    applications: pl.DataFrame
    subscribers: pl.DataFrame
    cells: pl.DataFrame
    flows: pl.DataFrame
    sessions: pl.DataFrame


@dataclass(slots=True)
class Tally:
    """Adds up what windows have given."""

    plan: Plan
    flows: list[pl.DataFrame] = field(default_factory=list)
    packets: int = 0
    bytes: int = 0
    control_packets: int = 0
    control_bytes: int = 0
    cells: Table | None = None

    def add_control(self, seen: Table) -> None:
        """Count the control plane of a window."""
        sums = seen.sum(axis=0)
        packets, size = (
            int(sums[s.UP_PACKETS] + sums[s.DOWN_PACKETS]),
            int(sums[s.UP_BYTES] + sums[s.DOWN_BYTES]),
        )
        self.control_packets += packets
        self.control_bytes += size
        self.packets += packets
        self.bytes += size

    def add_users(self, exchanges: Table, seen: Table) -> None:
        """Keep the flows of exchanges that have ended."""
        kept = np.flatnonzero(seen[:, s.UP_PACKETS] + seen[:, s.DOWN_PACKETS])
        if len(kept):
            rows = _flow_rows(self.plan, exchanges[kept // 2], kept % 2, seen[kept])
            self.flows.append(rows)
            self.packets += int(rows.select(pl.sum("src2dst_packets") + pl.sum("dst2src_packets")).item())
            self.bytes += int(rows.select(pl.sum("src2dst_bytes") + pl.sum("dst2src_bytes")).item())

    def add_cells(self, cells: Table) -> None:
        """Count packets and bytes in cells."""
        self.cells = cells.copy() if self.cells is None else self.cells + cells

    def truth(self) -> Truth:
        """All of it."""
        flows = pl.concat(self.flows) if self.flows else _flow_rows(self.plan, *_NO_FLOWS)
        sums = [
            (pl.sum("src2dst_packets") + pl.sum("dst2src_packets")).alias("packets"),
            (pl.sum("src2dst_bytes") + pl.sum("dst2src_bytes")).alias("bytes"),
            pl.len().cast(pl.Int64).alias("flows"),
        ]
        applications = flows.group_by("application").agg(sums).sort("application")
        sessions = _sessions(self.plan)
        if self.control_packets:
            nodes = sessions.select("serving_ip", "gateway_ip").n_unique()
            row = ["gtp-c", self.control_packets, self.control_bytes, nodes]
            applications = pl.concat([applications, pl.DataFrame([row], applications.schema, orient="row")])
        return Truth(
            self.packets,
            self.bytes,
            applications,
            flows.group_by("imsi").agg(sums).sort("imsi"),
            self._cells(),
            flows.sort("first_time", maintain_order=True),
            sessions,
        )

    def _cells(self) -> pl.DataFrame:
        counted = np.zeros((0, 2), np.int64) if self.cells is None else self.cells
        number = np.arange(len(counted))
        area = FIRST_AREA + number // CELLS_PER_AREA
        rows = {"area": area, "cell": number + 1, "packets": counted[:, 0], "bytes": counted[:, 1]}
        return pl.DataFrame(rows).filter(pl.col("packets") > 0)


_NO_FLOWS = (np.zeros((0, REGISTERS), np.int64), np.zeros(0, np.int64), np.zeros((0, s.SEEN), np.int64))


def _flow_rows(plan: Plan, rows: Table, second: Table, seen: Table) -> pl.DataFrame:
    scripts = plan.catalogue.scripts[CONTROL_SCRIPTS:]
    place = rows[:, _R.SCRIPT] - CONTROL_SCRIPTS
    table = [[(c.label, c.protocol, c.port) for c in script.conversations] for script in scripts]
    spoken = [conversations + [("", 0, 0)] * (2 - len(conversations)) for conversations in table]
    labels = pl.Series([c[0] for pair in spoken for c in pair])
    numbers = np.array([c[1:] for pair in spoken for c in pair], np.int64)[2 * place + second]
    six = rows[:, _R.VERSION] == 6
    client = (
        np.where(six, rows[:, _R.V6_HIGH], 0),
        np.where(six, rows[:, _R.V6_LOW], _MAPPED | rows[:, _R.CLIENT_IP]),
        np.where(second == 1, rows[:, _R.CLIENT_MEDIA_PORT], rows[:, _R.CLIENT_PORT]),
    )
    server = (
        np.where(six, _V6_SERVERS, 0),
        np.where(six, rows[:, _R.SERVER_IP], _MAPPED | rows[:, _R.SERVER_IP]),
        np.where(numbers[:, 1] == MEDIA, rows[:, _R.SERVER_MEDIA_PORT], numbers[:, 1]),
    )
    swapped = seen[:, s.SERVER_BEGAN] == 1
    columns: dict[str, npt.NDArray[Any]] = {}
    for end, mine, other in (("src", client, server), ("dst", server, client)):
        for name, kind, a, b in zip(("ip_high", "ip_low", "port"), _END_TYPES, mine, other, strict=True):
            columns[f"{end}_{name}"] = np.where(swapped, b, a).astype(kind)
    columns["protocol"] = numbers[:, 0].astype(np.uint8)
    columns.update(seen_columns(seen, plan.traffic.start_us))
    return pl.DataFrame(columns).with_columns(
        pl.Series("application", [script.application for script in scripts], pl.String).gather(place),
        labels.gather(2 * place + second).alias("label"),
        pl.Series("host", [script.host for script in scripts], pl.String).gather(place),
        pl.Series("imsi", rows[:, _R.IMSI].astype(np.int64)).cast(pl.String),
    )


def seen_columns(seen: Table, start_us: int) -> dict[str, npt.NDArray[Any]]:
    """Times and both ways of flows, in the words of `net.Flows`: src is who sent the first packet."""
    swapped = seen[:, s.SERVER_BEGAN] == 1
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, k in (("first_time", s.FIRST_US), ("last_time", s.LAST_US)):
        columns[name] = (start_us + seen[:, k]).astype("datetime64[us]")
    for way, usual, other in (
        ("src2dst", s.UP_PACKETS, s.DOWN_PACKETS),
        ("dst2src", s.DOWN_PACKETS, s.UP_PACKETS),
    ):
        for k, what in enumerate(("packets", "bytes", "flags")):
            values = np.where(swapped, seen[:, other + k], seen[:, usual + k])
            columns[f"{way}_{what}"] = values.astype(np.uint8) if what == "flags" else values
    return columns


_END_TYPES = (np.uint64, np.uint64, np.uint16)


def _sessions(plan: Plan) -> pl.DataFrame:
    """Who has which numbers; none without GTP."""
    count = plan.traffic.subscribers if plan.traffic.tunnel == "gtp" else 0
    out, subscribers = np.zeros((count, REGISTERS), np.int64), np.arange(count)
    settings = plan.settings()
    describe(settings, subscribers, 0, out)
    named = {
        "tunnel_id_up": _R.TEID_UP, "tunnel_id_down": _R.TEID_DOWN, "control_id_up": _R.CONTROL_UP,
        "control_id_down": _R.CONTROL_DOWN, "first_area": _R.AREA, "first_cell": _R.CELL,
    }  # fmt: skip
    addresses = {"ip": _R.SUBSCRIBER_IP, "serving_ip": _R.SERVING_IP, "gateway_ip": _R.GATEWAY_IP}
    version = [1 if uses_version_1(settings, n) else 2 for n in range(count)]
    return pl.DataFrame(
        {
            "imsi": pl.Series(out[:, _R.IMSI]).cast(pl.String),
            "msisdn": pl.Series(out[:, _R.MSISDN]).cast(pl.String),
            "gtp_version": pl.Series(version, dtype=pl.UInt8),
            **{
                name: pl.Series([str(ipaddress.IPv4Address(int(a))) for a in out[:, k]], dtype=pl.String)
                for name, k in addresses.items()
            },
            **{name: out[:, k].astype(np.uint32) for name, k in named.items()},
        }
    )
