"""Voice messages from captured traffic: conversations of one application, with subscriber and cell."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Literal

import polars as pl

import penstock as ps
from penstock import net
from penstock.apps.app_tracker import columns

IDLE, ACTIVE = dt.timedelta(seconds=10), dt.timedelta(minutes=5)
SLICES = 24


def voice_of(
    top: ps.Topology,
    captures: Path | str,
    *,
    application: str,
    ends: Literal["never", "drained"],
    bytes_per_epoch: int,
) -> ps.Stream:
    """Rows of `VOICE`: a conversation is a message, whose time is when it was found to be over.

    That is ten seconds after its last packet, the same for all, and never behind the punctuation. The cell is
    the one of its first packet; it is null if the control plane has not told it.
    """
    source = net.Pcap(captures, columns=columns(gprs=True), ends=ends)
    packets = top.source("spout", source, bytes_per_epoch=bytes_per_epoch)
    keyed = packets.flat_map("conversation", net.application_key).key_by(*net.FLOW_KEY)
    flows = keyed.process("dpi-engine", net.Applications(idle=IDLE, active=ACTIVE), parallelism=SLICES)
    is_voice = pl.col("application").str.contains(application, literal=True)
    messages = flows.filter("voice-filter", is_voice).key_by(*net.TUNNEL_KEY)
    owned = messages.process(
        "subscribers",
        net.Subscribers(late=ACTIVE + 6 * IDLE),
        also={"tunnels": _tunnels(packets).key_by(*net.TUNNEL_KEY)},
        parallelism=SLICES,
    )
    return owned.flat_map("voice", _voice)


def _tunnels(packets: ps.Stream) -> ps.Stream:
    """Whose tunnels are whose, from the control plane of GTP and Gb."""
    gtp = packets.flat_map("gtp-control", net.control_messages).to_one()
    gb = packets.flat_map("gb-sightings", net.gb_sightings).key_by(*net.GB_KEY)
    return gtp.process("gtp-tunnels", net.GtpTunnels()).union(
        "tunnels", gb.process("gb-tunnels", net.GbTunnels(), parallelism=SLICES)
    )


def _voice(flows: pl.DataFrame) -> pl.DataFrame:
    return flows.select(
        time=pl.col("last_time") + IDLE,
        msisdn=pl.col("msisdn").cast(pl.Int64, strict=False),
        bytes=pl.col("src2dst_bytes") + pl.col("dst2src_bytes"),
        lac=pl.col("area").cast(pl.Int64),
        cell=pl.col("cell").cast(pl.Int64),
    )
