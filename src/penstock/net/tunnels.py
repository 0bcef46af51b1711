"""Control messages to tunnels: which end of which tunnel belongs to which subscriber, and until when.

packets.flat_map("control", net.control_messages).to_one().process("tunnels", net.GtpTunnels())
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connect.durations import microseconds
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

TUNNEL_KEY = ("outer_dst_ip_high", "outer_dst_ip_low", "tunnel_id")
"""Where a packet of a user goes in the outer network: what packets and tunnels are joined by."""
SUBSCRIBER = {
    "imsi": "string",
    "msisdn": "string",
    "mcc": "string",
    "mnc": "string",
    "location": "string",
    "area": "uint32",
    "cell": "uint32",
}
"""What is known of a subscriber; ``location`` says what ``area`` and ``cell`` are, as in `CONTROL`."""
UNUSED = "unused"
WAITING, NAMES = "waiting", "names"


@dataclass(frozen=True, init=False)
class GtpTunnels(Operator):
    """Pair requests with their responses and emit a row for each end of a tunnel that begins or ends.

    Takes rows of `CONTROL`, in any order: they wait for the punctuation and are taken by time. A request is
    given up when no response has come for ``wait``. A row is emitted when an end is assigned, again when
    the subscriber's location changes, and with ``is_valid`` false when it is over, each at the time of the
    response. Requests that were rejected, not answered or speak of an unknown session go to ``unused``.

    What belongs to one session has no common column (a move to another node brings new addresses), so lead
    the messages ``to_one()``; where nodes keep their addresses, any key that both directions share will do.
    Version 0 is left out. State: the open sessions, saved by what changed.
    """

    wait_us: int

    returns: ClassVar[Mapping[str, Any]] = {
        "time": "timestamp",
        **dict(zip(TUNNEL_KEY, ("uint64", "uint64", "uint32"), strict=True)),
        **SUBSCRIBER,
        "apn": "string",
        "bearer": "uint8",
        "is_valid": "bool",
    }
    outputs: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        UNUSED: {"time": "timestamp", "version": "uint8", "kind": "string", "why": "string"}
    }

    def __init__(self, *, wait: str | dt.timedelta = "60s") -> None:
        object.__setattr__(self, "wait_us", microseconds(wait, where="GtpTunnels", what="wait"))

    def init_state(self) -> dict[str, Any]:
        from penstock.net._gtp_sessions import empty_tables
        from penstock.operators.keyed import KeyedTable
        from penstock.operators.timed_rows import TimedRows

        names = KeyedTable({"apn": str}, {"number": "uint32"})
        return {WAITING: TimedRows("time"), NAMES: names, **empty_tables()}

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        from penstock.net._gtp_pairs import of_sessions

        state[WAITING].append(of_sessions(batch))

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        from penstock.net._gtp_changes import Changes
        from penstock.net._gtp_pairs import pairs
        from penstock.operators.event_time import as_us

        waiting, clock = state[WAITING], as_us(time)
        if not len(waiting):
            return
        paired = pairs(waiting, clock, self.wait_us)
        changes = Changes(state, paired.answered)
        unused = [*paired.unanswered, *changes.apply()]
        emit(changes.rows())
        if unused:
            emit.to(UNUSED, _unused(unused))


def _unused(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    import polars as pl

    from penstock.frames.types import to_polars
    from penstock.topology.schema import Schema

    return pl.DataFrame(rows, schema=to_polars(Schema.of(GtpTunnels.outputs[UNUSED])), orient="row")
