"""Voice messages from captured traffic: conversations of one application, with subscriber and cell."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl

import penstock as ps
from penstock import net
from penstock.apps.app_tracker import NEEDED
from penstock.apps.flow_control.as_of import CHANGES, AsOf
from penstock.apps.flow_control.events import VOICE

IDLE = pl.duration(seconds=10)


def voice_of(
    top: ps.Topology,
    captures: Path | str,
    *,
    application: str,
    ends: Literal["never", "drained"],
    bytes_per_epoch: int,
) -> ps.Stream:
    """Rows of `VOICE`: a conversation is a message, whose time is when it was found to be over.

    That is ten seconds after its last packet, the same for all, and never behind the punctuation.
    """
    columns = (*dict.fromkeys((*NEEDED, *net.CONTROL_NEEDS, *net.TUNNEL_KEY)),)
    source = net.Pcap(captures, columns=columns, ends=ends)
    packets = top.source("spout", source, bytes_per_epoch=bytes_per_epoch)
    tunnels = packets.flat_map("control", net.control_messages).to_one().process("tunnels", net.GtpTunnels())
    users = packets.filter("users", pl.col("tunnel") == net.TUNNELS.index("gtp-u"))
    known = users.key_by(*net.TUNNEL_KEY).process(
        "gprs-decoder", net.Subscribers(), also={"tunnels": tunnels.key_by(*net.TUNNEL_KEY)}
    )
    keyed = known.flat_map("conversation", net.application_key).key_by(*net.FLOW_KEY)
    flows = keyed.process("dpi-engine", net.Applications(idle="10s", active="5m"))
    is_voice = pl.col("application").str.contains(application, literal=True)
    messages = flows.filter("voice-filter", is_voice & pl.col("imsi").is_not_null()).flat_map(
        "messages", _messages
    )
    places = tunnels.flat_map("places", _places)
    placed = messages.key_by("imsi").process(
        "place", AsOf(("imsi",), (str,), ("msisdn", "lac", "cell")), also={CHANGES: places.key_by("imsi")}
    )
    return placed.flat_map("voice", lambda rows: rows.select(*VOICE))


def _messages(flows: pl.DataFrame) -> pl.DataFrame:
    size = pl.col("src2dst_bytes") + pl.col("dst2src_bytes")
    return flows.select(time=pl.col("last_time") + IDLE, imsi="imsi", bytes=size)


def _places(tunnels: pl.DataFrame) -> pl.DataFrame:
    """Where subscribers are, from the tunnels that begin or move; those that do not say are left out."""
    said = tunnels.filter(pl.col("is_valid") & pl.col("imsi").is_not_null() & pl.col("cell").is_not_null())
    number = pl.col("msisdn").cast(pl.Int64, strict=False).fill_null(0)
    area = pl.col("area").cast(pl.Int64).fill_null(0)
    return said.select("time", "imsi", msisdn=number, lac=area, cell=pl.col("cell").cast(pl.Int64))
