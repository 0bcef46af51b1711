"""Packets of users with who sends or gets them, and where.

tunnels = packets.flat_map("control", net.control_messages).to_one().process("tunnels", net.GtpTunnels())
users = packets.key_by(*net.TUNNEL_KEY).process(
    "subscribers", net.Subscribers(), also={"tunnels": tunnels.key_by(*net.TUNNEL_KEY)})
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connect.durations import microseconds
from penstock.net.tunnels import TUNNEL_KEY
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

PACKETS, CHANGES, TUNNELS = "packets", "changes", "tunnels"
_KEY = dict(zip(TUNNEL_KEY, ("uint64", "uint64", "uint32"), strict=True))
_CODES = {"imsi": "uint64", "msisdn": "uint64", "network": "uint32", "place": "uint64"}


@dataclass(frozen=True, init=False)
class Subscribers(Operator):
    """Add the columns `SUBSCRIBER` to packets, from the tunnel that each travels in.

    Takes packets, or flows or shares of `Applications`, and on its input ``tunnels`` the rows of `GtpTunnels`
    and `GbTunnels`; all keyed by `TUNNEL_KEY`. A row gets what held at its own ``time``, however inputs and
    epochs come: rows wait for the punctuation, a tunnel counts from its row's time on until a row ends it. If
    the tunnel is unknown the columns are null; no row is left out. Rows may come up to ``late`` behind the
    punctuation, which flows do that are told when they end; later ones get what holds then. State: the open
    tunnels, what changed within ``late``, and what waits, saved by what changed.
    """

    late_us: int

    def __init__(self, *, late: str | dt.timedelta = "0s") -> None:
        object.__setattr__(self, "late_us", microseconds(late, where="Subscribers", what="late"))

    def init_state(self) -> dict[str, Any]:
        from penstock.operators.keyed import KeyedTable
        from penstock.operators.timed_rows import TimedRows

        return {
            PACKETS: TimedRows("time"),
            CHANGES: TimedRows("time"),
            TUNNELS: KeyedTable(_KEY, _CODES),
        }

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        self.process_input("in", batch, state, emit)

    def process_input(self, name: str, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        if name == TUNNELS:
            state[CHANGES].append(_coded(batch))
            return
        state[PACKETS].append(batch)
        if not batch.height:
            emit(_told(batch, None, state[TUNNELS]))  # tells the plan the columns

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        from penstock.operators.event_time import as_us

        clock = as_us(time)
        packets = before(state[PACKETS], clock)
        if packets is not None:
            changes = state[CHANGES].before(clock) if len(state[CHANGES]) else None
            emit(_told(packets, changes, state[TUNNELS]))
        settled = before(state[CHANGES], clock - self.late_us)
        if settled is not None:
            _fold(settled, state[TUNNELS])


def before(waiting: Any, clock: int) -> pl.DataFrame | None:
    """The rows whose time has come, which are let go; None if there are none."""
    if not (waiting.times < clock).any():
        return None
    rows: pl.DataFrame = waiting.before(clock)
    waiting.drop_before(clock)
    return rows


def _coded(tunnels: pl.DataFrame) -> pl.DataFrame:
    """Rows of tunnels as numbers, which can be kept per key."""
    from penstock.net import _subscriber_codes as codes

    return tunnels.select(
        "time",
        *TUNNEL_KEY,
        codes.digits_code("imsi").alias("imsi"),
        codes.digits_code("msisdn").alias("msisdn"),
        codes.network_code().alias("network"),
        codes.place_code().alias("place"),
        "is_valid",
    )


def _told(packets: pl.DataFrame, changes: pl.DataFrame | None, known: Any) -> pl.DataFrame:
    """Packets with what holds for each: the last change before it, else what was known before all of these.

    Each subscriber is written out once, not for every packet.
    """
    import numpy as np
    import polars as pl

    source = known.find([packets[name] for name in TUNNEL_KEY])
    if changes is not None:
        last = _last_change(packets, changes)
        source = np.where(last >= 0, -2 - last, source)  # changes count down from -2
    found, who = np.unique(source, return_inverse=True)
    in_table, in_changes = found >= 0, found < -1
    codes = {}
    for name in _CODES:
        values = np.zeros(len(found), known[name].dtype)
        values[in_table] = known[name][found[in_table]]
        if changes is not None:
            over = ~changes["is_valid"].to_numpy()
            values[in_changes] = np.where(over, 0, changes[name].to_numpy())[-2 - found[in_changes]]
        codes[name] = values
    return packets.with_columns(texts(pl.DataFrame(codes))[who].get_columns())


def _last_change(packets: pl.DataFrame, changes: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The place of the last change of each packet's tunnel up to its time; -1 if there is none."""
    import numpy as np
    import polars as pl

    by = list(TUNNEL_KEY)
    placed = changes.select("time", *by).with_row_index("change").sort("time", maintain_order=True)
    placed = placed.join(packets.select(by), on=by, how="semi")
    asked = packets.select("time", *by).with_row_index("packet")
    asked = asked.join(placed.select(by).unique(), on=by, how="semi").filter(pl.col("time").is_not_null())
    asked = asked.sort("time", maintain_order=True)
    met = asked.join_asof(placed, on="time", by=by, strategy="backward", check_sortedness=False)
    met = met.filter(pl.col("change").is_not_null())
    out = np.full(packets.height, -1, np.int64)
    out[met["packet"].to_numpy()] = met["change"].to_numpy()
    return out


def _fold(changes: pl.DataFrame, known: Any) -> None:
    """Keep the last change of each tunnel; forget those that are over."""
    import polars as pl

    last = changes.sort("time", maintain_order=True).unique(TUNNEL_KEY, keep="last", maintain_order=True)
    over = known.find(last.filter(~pl.col("is_valid")).select(TUNNEL_KEY))
    known.remove(over[over >= 0])
    valid = last.filter("is_valid")
    rows = known.rows(valid.select(TUNNEL_KEY))
    for name in _CODES:
        known.last(name, rows, valid[name].to_numpy())


def texts(codes: pl.DataFrame) -> pl.DataFrame:
    """Digits and places as people read them."""
    from penstock.net import _subscriber_codes as c

    told = (c.digits_text("imsi"), c.digits_text("msisdn"), *c.network_texts("network"))
    return codes.select(*told, *c.place_columns("place"))
