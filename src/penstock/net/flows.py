"""Packets to flows: both directions of a conversation as one record, ended by event time.

packets.map("key", net.flow_key).key_by(*net.FLOW_KEY).process("flows", net.Flows())
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connect.durations import microseconds
from penstock.operators.keyed import KeyedTable
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

_ENDS = {"ip_high": "uint64", "ip_low": "uint64", "port": "uint16"}
_KEY = {
    **{f"a_{name}": kind for name, kind in _ENDS.items()},
    **{f"b_{name}": kind for name, kind in _ENDS.items()},
    "protocol": "uint8",
    "vlan": "uint16",
    "tunnel_id": "uint32",
}
FLOW_KEY = tuple(_KEY)
"""What the packets of one conversation have in common, whichever way they go: `a` is the lesser end."""
_VALUES = {
    "first_time": "timestamp", "last_time": "timestamp", "is_forward": "bool",
    "src2dst_packets": int, "src2dst_bytes": int, "dst2src_packets": int, "dst2src_bytes": int,
    "src2dst_flags": "uint8", "dst2src_flags": "uint8",
}  # fmt: skip
_KERNEL_ORDER = (
    "first_time", "last_time", "is_forward", "src2dst_packets", "src2dst_bytes", "src2dst_flags",
    "dst2src_packets", "dst2src_bytes", "dst2src_flags",
)  # fmt: skip
_EPOCH = dt.datetime(1970, 1, 1)


def flow_key(packets: pl.DataFrame) -> pl.DataFrame:
    """Add the key of the conversation; packets that are not IP or have no time are left out.

    The ends of packets in a tunnel are those inside. The key of a tunnel with one number per direction
    (GTP-U) does not hold the number.
    """
    import polars as pl

    from penstock.net._layout import GTP

    ends = [(f"src_{name}", f"dst_{name}") for name in ("ip_high", "ip_low", "port")]
    forward = pl.lit(value=True)
    for src, dst in reversed(ends):
        forward = (pl.col(src) < pl.col(dst)) | ((pl.col(src) == pl.col(dst)) & forward)
    kept = packets.filter((pl.col("ip_version") > 0) & pl.col("time").is_not_null()).with_columns(
        forward=forward
    )
    lesser = [pl.when("forward").then(src).otherwise(dst).alias("a" + src[3:]) for src, dst in ends]
    greater = [pl.when("forward").then(dst).otherwise(src).alias("b" + src[3:]) for src, dst in ends]
    number = (
        pl.when(pl.col("tunnel") == GTP).then(0).otherwise("tunnel_id").cast(pl.UInt32).alias("tunnel_id")
    )
    return kept.select(
        *lesser, *greater, "protocol", "vlan", number, "time", "length", "tcp_flags", "forward"
    )


@dataclass(frozen=True, init=False)
class Flows(Operator):
    """Keep a table of conversations and emit each when it has ended.

    A flow ends when no packet came for ``idle``, or when it has lasted for ``active``, by the time of the
    packets; what the input's end leaves is emitted too. ``src`` is the end that sent the first packet.
    Packets must come about in order of time: one that is late still counts for the flow that is there.
    """

    idle_us: int
    active_us: int

    returns = {
        **{f"{end}_{name}": kind for end in ("src", "dst") for name, kind in _ENDS.items()},
        **{name: _KEY[name] for name in ("protocol", "vlan", "tunnel_id")},
        **{name: kind for name, kind in _VALUES.items() if name != "is_forward"},
    }

    def __init__(self, *, idle: str | dt.timedelta = "120s", active: str | dt.timedelta = "30m") -> None:
        object.__setattr__(self, "idle_us", microseconds(idle, where="Flows", what="idle"))
        object.__setattr__(self, "active_us", microseconds(active, where="Flows", what="active"))

    def init_state(self) -> KeyedTable:
        return KeyedTable(key=_KEY, values=_VALUES)

    def process(self, batch: pl.DataFrame, state: Any, emit: Emit) -> None:
        import numpy as np
        import polars as pl

        from penstock.frames._jit import readonly
        from penstock.net import _flow_kernels as kernels

        rows = state.rows(batch.select(*FLOW_KEY))
        times, lengths = batch["time"].to_physical(), batch["length"].cast(pl.Int64)
        columns = [readonly(c.to_numpy()) for c in (times, lengths, batch["forward"], batch["tcp_flags"])]
        ended_rows = np.empty(len(rows), np.int64)
        ended = np.empty((kernels.VALUES, len(rows)), np.int64)
        take: Any = kernels.take
        count = take(
            readonly(rows),
            *columns,
            self.idle_us,
            self.active_us,
            *(state[name] for name in _KERNEL_ORDER),
            ended_rows,
            ended,
        )
        if count:
            keys = state.frame(ended_rows[:count]).select(*FLOW_KEY)
            values = [
                pl.Series(name, ended[k, :count]).cast(state.frame(rows[:0]).schema[name])
                for k, name in enumerate(_VALUES)
            ]
            emit(_told(keys.with_columns(values)))

    def on_punctuation(self, time: dt.datetime, state: Any, emit: Emit) -> None:
        import numpy as np

        rows = state.find(state.frame().select(*FLOW_KEY))
        if time.year < 9999:
            now = (time - _EPOCH) // dt.timedelta(microseconds=1)
            rows = rows[state["last_time"][rows] < now - self.idle_us]
        if len(rows):
            emit(_told(state.frame(np.sort(rows))))
            state.remove(rows)


def _told(flows: pl.DataFrame) -> pl.DataFrame:
    """From the lesser and greater end to who began and who answered."""
    import polars as pl

    src = [
        pl.when("is_forward").then(f"a_{name}").otherwise(f"b_{name}").alias(f"src_{name}") for name in _ENDS
    ]
    dst = [
        pl.when("is_forward").then(f"b_{name}").otherwise(f"a_{name}").alias(f"dst_{name}") for name in _ENDS
    ]
    return flows.with_columns(*src, *dst).select(*Flows.returns)
