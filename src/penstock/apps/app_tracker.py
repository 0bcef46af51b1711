"""The application tracker: which applications the traffic of captures belongs to, and how much each takes.

The pipeline of SAND: captures, decoding (through GTP-U and other tunnels), inspection of the first packets of
each flow, totals per application. With ``gprs`` the control plane is read too, and each flow and each total
knows its subscriber and where it was.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import polars as pl

import penstock as ps
from penstock import net
from penstock.control.live_table import LiveTable
from penstock.errors import BadArgument

EPOCH_BYTES = 512 << 20
PARALLELISM = 16
"""Slices of each node. Time passes in every slice of every node in every epoch: with 120 slices an epoch of
half a million packets took four to five times as long as with 8."""
GB_PARALLELISM = 4
"""Gb links are slow, and only what tells of subscribers and cells goes to this node."""
IDLE, ACTIVE = "120s", "30m"
LATE = "35m"
"""Flows are told when they have ended, which is less than this behind their first packet."""
SUMS = ("packets", "bytes", "flows")
NEEDED = (
    "time", "length", "ip_version", "protocol", "tcp_flags", "vlan", "tunnel", "tunnel_id",
    "src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low", "src_port", "dst_port",
    "payload_offset", "payload_length", "tcp_seq", "tcp_ack", "icmp_type", "icmp_code", "packet",
    "capture_file", "capture_place",
)  # fmt: skip
IN_FRAGMENTS = ("link_type", "fragment_id", "fragment_offset", "more_fragments")
IS_FRAGMENT = (pl.col("fragment_offset") > 0) | (pl.col("more_fragments") > 0)
IS_SEGMENT = net.is_segment()
LIVE = LiveTable(
    title="applications",
    sink="totals",
    key=("application",),
    columns=("application", "packets", "bytes", "flows", "subscribers"),
    order_by="bytes",
    top=15,
    shares=("packets", "bytes"),
)


class Shares(ps.Operator):
    """Keep totals per application and emit those that changed; without subscribers their number is null."""

    returns = {"application": str, **dict.fromkeys(SUMS, int), "subscribers": int}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"application": str}, values=dict.fromkeys((*SUMS, "subscribers"), int))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        rows = state.rows(batch)
        counted = [name for name in (*SUMS, "subscribers") if name in batch.columns]
        for name in counted:
            state.add(name, rows, batch[name])
        changed = state.frame(state.changed())
        known = {} if "subscribers" in counted else {"subscribers": pl.lit(None, pl.Int64)}
        emit(changed.with_columns(**known))


class SubscriberShares(ps.Operator):
    """Keep totals per subscriber and application, and emit those that changed, with the newest location.

    The output ``shares`` has what came for each application, and how many subscribers are new to it.
    """

    returns = {**net.SUBSCRIBER, "application": str, **dict.fromkeys(SUMS, int)}
    outputs = {"shares": {"application": str, **dict.fromkeys((*SUMS, "subscribers"), int)}}

    def init_state(self) -> ps.KeyedTable:
        return ps.KeyedTable(key={"imsi": str, "application": str}, values=dict.fromkeys(SUMS, int))

    def process(self, batch: pl.DataFrame, state: Any, emit: Any) -> None:
        key = ["imsi", "application"]
        details = [name for name in net.SUBSCRIBER if name != "imsi"]
        came = (
            batch.sort("time", maintain_order=True, nulls_last=False)
            .group_by(key, maintain_order=True)
            .agg(pl.col(details).last(), pl.sum(*SUMS))
        )
        is_new = (state.find(came.select(key)) < 0) & came["imsi"].is_not_null().to_numpy()
        rows = state.rows(came.select(key))
        for name in SUMS:
            state.add(name, rows, came[name])
        emit(came.with_columns(state.frame(rows).select(SUMS)).select(*self.returns))
        shares = came.with_columns(subscribers=pl.Series(is_new).cast(pl.Int64))
        emit.to("shares", shares.select(*self.outputs["shares"]))


def topology(
    captures: Path | str = "captures",
    *,
    interface: str | None = None,
    bpf: str | None = None,
    follow: bool = False,
    gprs: bool = False,
    defragment: bool = False,
    engine: Literal["best", "ndpi", "builtin"] = "best",
    parallelism: int = PARALLELISM,
    directory: Path | str = "out/applications",
    bytes_per_epoch: int = EPOCH_BYTES,
) -> ps.Topology:
    """The topology: packets, flows with their application, totals per application, a table of each.

    Packets come from captures (``follow`` waits for more when all have been read), or from a network
    ``interface``, those that the filter ``bpf`` lets through.
    ``gprs`` adds subscribers to both and a table per subscriber and application. ``defragment`` joins IP
    fragments first, and with ``gprs`` the segments of packets on the Gb interface, which leads them through
    one exchange more. The engine of ``best`` is chosen here, once, so that all machines of the run use the
    same.
    """
    top = ps.Topology("app-tracker")
    needed = columns(gprs=gprs, defragment=defragment)
    source: net.Interface | net.Pcap
    if interface is not None:
        source = net.Interface(interface, columns=needed, bpf=bpf)
    else:
        source = net.Pcap(captures, columns=needed, ends="never" if follow else "drained")
    packets = top.source("captures", source, bytes_per_epoch=bytes_per_epoch)
    track(packets, directory, gprs=gprs, defragment=defragment, engine=engine, parallelism=parallelism)
    return top


def track(
    packets: ps.Stream,
    directory: Path | str,
    *,
    gprs: bool = False,
    defragment: bool = False,
    engine: Literal["best", "ndpi", "builtin"] = "best",
    parallelism: int = PARALLELISM,
) -> None:
    """Lead packets, from wherever they come, through the tracker and into its tables."""
    frames = packets
    if defragment:
        packets, frames = _joined(packets, gprs=gprs, parallelism=parallelism)
    operator = net.Applications(engine=_engine(engine), idle=IDLE, active=ACTIVE)
    keyed = packets.flat_map("conversation", net.application_key).key_by(*net.FLOW_KEY)
    flows = keyed.process("applications", operator, parallelism=parallelism)
    shares = flows.output("shares")
    if gprs:
        flows, shares = _with_subscribers(packets, frames, flows, directory, parallelism)
    flows.sink("flows", ps.Delta(f"{directory}/flows"))
    totals = shares.key_by("application").process("shares", Shares(), parallelism=1)
    totals.sink("totals", ps.Delta(f"{directory}/shares"))


def _joined(packets: ps.Stream, *, gprs: bool, parallelism: int) -> tuple[ps.Stream, ps.Stream]:
    """Whole packets in the place of those that came in parts; and with those, all frames that Gb had."""
    if not gprs:
        fragments = packets.filter("fragments", IS_FRAGMENT)
        whole = packets.filter("whole", ~IS_FRAGMENT).union("packets", _defragmented(fragments, parallelism))
        return whole, whole
    segments = packets.flat_map("segments", net.gb_segments).key_by(*net.SEGMENT_KEY)
    joined = segments.process(
        "joined-segments", net.JoinSegments(), parallelism=min(parallelism, GB_PARALLELISM)
    )
    fragments = packets.filter("fragments", IS_FRAGMENT & ~IS_SEGMENT)
    defragmented = _defragmented(fragments, parallelism)
    whole = packets.filter("whole", ~IS_FRAGMENT & ~IS_SEGMENT).union("packets", defragmented, joined)
    return whole, whole.union("frames", packets.filter("frames-of-segments", IS_SEGMENT))


def _defragmented(fragments: ps.Stream, parallelism: int) -> ps.Stream:
    return fragments.key_by(*net.FRAGMENT_KEY).process("joined", net.Defragment(), parallelism=parallelism)


def _with_subscribers(
    packets: ps.Stream, frames: ps.Stream, flows: ps.Stream, directory: Path | str, parallelism: int
) -> tuple[ps.Stream, ps.Stream]:
    """Flows and shares with their subscribers; a table of shares per subscriber."""
    gtp = packets.flat_map("gtp-control", net.control_messages).to_one()
    gb = frames.flat_map("gb-sightings", net.gb_sightings).key_by(*net.GB_KEY)
    tunnels = gtp.process("gtp-tunnels", net.GtpTunnels()).union(
        "tunnels", gb.process("gb-tunnels", net.GbTunnels(), parallelism=min(parallelism, GB_PARALLELISM))
    )

    def owned(name: str, rows: ps.Stream) -> ps.Stream:
        also = {"tunnels": tunnels.key_by(*net.TUNNEL_KEY)}
        keyed, owner = rows.key_by(*net.TUNNEL_KEY), net.Subscribers(late=LATE)
        return keyed.process(name, owner, also=also, parallelism=parallelism)

    of_flows = owned("owners-of-flows", flows)
    per_subscriber = (
        owned("owners-of-shares", flows.output("shares"))
        .key_by("imsi")
        .process("subscribers", SubscriberShares(), parallelism=parallelism)
    )
    per_subscriber.sink("subscriber-totals", ps.Delta(f"{directory}/subscribers"))
    return of_flows, per_subscriber.output("shares")


def columns(*, gprs: bool = False, defragment: bool = False) -> tuple[str, ...]:
    """What the tracker needs of each packet."""
    more = [*(net.CONTROL_NEEDS if gprs else ()), *(net.GB_NEEDS if gprs else ())]
    more += [*(IN_FRAGMENTS if defragment else ()), *(net.SEGMENT_NEEDS if defragment and gprs else ())]
    return tuple(dict.fromkeys((*NEEDED, *more)))


def _engine(choice: Literal["best", "ndpi", "builtin"]) -> Literal["ndpi", "builtin"]:
    """The engine that there is; says which on standard error, and why."""
    from penstock.errors import NdpiUnusable
    from penstock.net.dpi import engine
    from penstock.net.dpi.builtin import Builtin

    try:
        name, why = engine("builtin" if choice == "builtin" else "ndpi").name, ""
    except NdpiUnusable as reason:
        if choice == "ndpi":
            allowed = f"best or builtin, as nDPI cannot be used here: {reason}"
            raise BadArgument(where="app-tracker", what="engine", got=choice, allowed=allowed) from reason
        name, why = Builtin().name, f" ({reason})"
    sys.stderr.write(f"app-tracker: applications are recognised by {name}{why}\n")
    return "builtin" if name == Builtin().name else "ndpi"
