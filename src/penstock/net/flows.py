"""Packets to flows: both directions of a conversation as one record, ended by event time.

packets.flat_map("key", net.flow_key).key_by(*net.FLOW_KEY).process("flows", net.Flows())
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connect.durations import microseconds
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

ENDS = {"ip_high": "uint64", "ip_low": "uint64", "port": "uint16"}
KEY = {
    **{f"a_{name}": kind for name, kind in ENDS.items()},
    **{f"b_{name}": kind for name, kind in ENDS.items()},
    "protocol": "uint8",
    "vlan": "uint16",
    "tunnel_id": "uint32",
}
FLOW_KEY = tuple(KEY)
"""What the packets of one conversation have in common, whichever way they go: `a` is the lesser end."""
VALUES = {
    "first_time": "timestamp", "last_time": "timestamp", "is_forward": "bool",
    "src2dst_packets": int, "src2dst_bytes": int, "dst2src_packets": int, "dst2src_bytes": int,
    "src2dst_flags": "uint8", "dst2src_flags": "uint8",
}  # fmt: skip


def flow_key(packets: pl.DataFrame) -> pl.DataFrame:
    """Add the key of the conversation; packets that are not IP or have no time are left out.

    The ends of packets in a tunnel are those inside. A tunnel's number tells networks apart that may use
    the same addresses (VXLAN, Geneve, GRE), and is part of the key. In mobile networks it stands for a
    subscriber, whose address does that already, and it changes while a conversation goes on: GTP-U has one
    per direction and new ones after a handover, on Gb a new TLLI follows each new P-TMSI. There the key
    holds 0; whose a flow is, the tunnel says (see `Applications` and `Subscribers`).
    """
    return with_key(packets)


def with_key(packets: pl.DataFrame, *more: str | pl.Expr) -> pl.DataFrame:
    """What `flow_key` gives, and more columns."""
    import polars as pl

    from penstock.net._layout import GB, GTP

    ends = [(f"src_{name}", f"dst_{name}") for name in ("ip_high", "ip_low", "port")]
    forward = pl.lit(value=True)
    for src, dst in reversed(ends):
        forward = (pl.col(src) < pl.col(dst)) | ((pl.col(src) == pl.col(dst)) & forward)
    kept = packets.filter((pl.col("ip_version") > 0) & pl.col("time").is_not_null()).with_columns(
        forward=forward
    )
    lesser = [pl.when("forward").then(src).otherwise(dst).alias("a" + src[3:]) for src, dst in ends]
    greater = [pl.when("forward").then(dst).otherwise(src).alias("b" + src[3:]) for src, dst in ends]
    is_mobile = pl.col("tunnel").is_in([GTP, GB])
    number = pl.when(is_mobile).then(0).otherwise("tunnel_id").cast(pl.UInt32).alias("tunnel_id")
    return kept.select(
        *lesser, *greater, "protocol", "vlan", number, "time", "length", "tcp_flags", "forward", *more
    )


@dataclass(frozen=True, init=False)
class Flows(Operator):
    """Keep a table of conversations and emit each when it has ended.

    A flow ends when no packet came for ``idle``, or when it has lasted for ``active``, by the time of the
    packets; what the input's end leaves is emitted too. ``src`` is the end that sent the first packet.
    Packets must come about in order of time: one that is late still counts for the flow that is there,
    whose begin it moves back by ``idle`` at most.
    """

    idle_us: int
    active_us: int

    returns = {
        **{f"{end}_{name}": kind for end in ("src", "dst") for name, kind in ENDS.items()},
        **{name: KEY[name] for name in ("protocol", "vlan", "tunnel_id")},
        **{name: kind for name, kind in VALUES.items() if name != "is_forward"},
    }
    state_version = 2

    def __init__(self, *, idle: str | dt.timedelta = "120s", active: str | dt.timedelta = "30m") -> None:
        object.__setattr__(self, "idle_us", microseconds(idle, where="Flows", what="idle"))
        object.__setattr__(self, "active_us", microseconds(active, where="Flows", what="active"))

    def init_state(self) -> Any:
        from penstock.net._flow_table import new_state

        return new_state(self.idle_us)

    def process(self, batch: pl.DataFrame, state: Any, emit: Emit) -> None:
        import numpy as np

        from penstock.net import _flow_table as flow_table

        packets = flow_table.Batch.of(batch)
        which, salt = np.arange(batch.height), 0
        while len(which):  # again only for flows that share 64 bits of their fingerprint
            taken = flow_table.take(state, packets, which, salt, self.idle_us, self.active_us)
            if taken.ended is not None:
                emit(flow_table.told(taken.ended))
            which, salt = taken.missed, salt + 1

    def on_punctuation(self, time: dt.datetime, state: Any, emit: Emit) -> None:
        from penstock.net import _flow_table as flow_table

        rows = flow_table.expired(state, time, self.idle_us)
        if len(rows):
            emit(flow_table.told(state["flows"].frame(rows)))
            state["flows"].remove(rows)
