"""Fragments to the packets that they were.

packets.key_by(*net.FRAGMENT_KEY).process("whole", net.Defragment())
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument
from penstock.net import _fragment_layout as f
from penstock.net._layout import MOST_TUNNELS
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

    from penstock.net._fragment_packets import Fragments
    from penstock.operators.timed_rows import TimedRows

FRAGMENT_KEY = ("src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low", "fragment_id")
"""What the fragments of a packet have in common. The protocol is not in it, as fragments of IPv6 may announce
different ones; `Defragment` tells packets of IPv4 apart by it too."""
NEEDED = ("time", "packet", "length", "link_type", "fragment_offset", "more_fragments")
_INCOMPLETE = "incomplete"
_SINCE = "defragment.since"
Tunnels = Literal["inner", "outer"]


@dataclass(frozen=True, init=False)
class Defragment(Operator):
    """Pass whole packets on untouched, and fragments as the whole packet when the last of them has come.

    Takes the rows of `Pcap` with the column "packet" and gives the same columns. A packet that was joined
    has its headers put right (length, flags, checksum; IPv6 without its fragment header), the time of the
    fragment that completed it and the columns that decoding finds in it. If the fragments came through a
    tunnel its bytes are the inner packet alone (link type 101); columns of tunnel and link are kept.
    Fragments inside of a packet that was itself in fragments need a second `Defragment` behind the first.

    Overlap: of IPv4 the bytes that came first win, as in Zeek; of IPv6 a packet with overlapping fragments is
    discarded (RFC 5722), except that exact copies are ignored (RFC 8200). Lengths that contradict each
    other discard a packet, as in Linux. What comes later for a discarded packet is discarded too.

    Time: a packet is given up when its fragments have waited for ``timeout`` by the time of the packets.
    Memory: one packet holds at most ``packet_bytes`` (256 bytes are counted for each fragment besides its
    own), a slice at most ``slice_bytes``; then the oldest is given up. All that is given up goes
    to the output "incomplete", one row per packet, with the reason.

    The output does not depend on how epochs are cut, if no packet comes later than the source's lateness.
    """

    timeout_us: int
    packet_bytes: int
    slice_bytes: int
    tunnels: Tunnels

    outputs = {
        _INCOMPLETE: {
            "time": "timestamp",
            **dict.fromkeys(FRAGMENT_KEY[:4], "uint64"),
            "ip_version": "uint8",
            "protocol": "uint8",
            "fragment_id": "uint32",
            "fragments": "uint32",
            "bytes": "uint32",
            "reason": str,
        }
    }

    def __init__(
        self,
        *,
        timeout: str | dt.timedelta = "30s",
        packet_bytes: int = 256 << 10,
        slice_bytes: int = 16 << 20,
        tunnels: Tunnels = "inner",
    ) -> None:
        where = "Defragment"
        for what, got in (("packet_bytes", packet_bytes), ("slice_bytes", slice_bytes)):
            if got < 1:
                raise BadArgument(where=where, what=what, got=got, allowed="1 or more")
        if tunnels not in get_args(Tunnels):
            raise BadArgument(where=where, what="tunnels", got=repr(tunnels), allowed="inner, outer")
        object.__setattr__(self, "timeout_us", microseconds(timeout, where=where, what="timeout"))
        object.__setattr__(self, "packet_bytes", packet_bytes)
        object.__setattr__(self, "slice_bytes", slice_bytes)
        object.__setattr__(self, "tunnels", tunnels)

    def init_state(self) -> TimedRows:
        from penstock.operators.timed_rows import TimedRows

        return TimedRows(_SINCE)

    def process(self, batch: pl.DataFrame, state: TimedRows, emit: Emit) -> None:
        import polars as pl

        if missing := [name for name in NEEDED if name not in batch.columns]:
            raise BadArgument(
                where="Defragment", what="columns", got=batch.columns, allowed=f"also {', '.join(missing)}"
            )
        is_part = (batch["fragment_offset"] > 0) | (batch["more_fragments"] > 0)
        if not is_part.any():
            emit(batch)
            return
        found = self._collect(batch.filter(is_part), state, emit)
        if found is None:
            emit(batch.filter(~is_part))
            return
        packets, last = found
        places = pl.Series("place", is_part.arg_true()[last], dtype=pl.UInt32)
        whole = batch.with_row_index("place").filter(~is_part)
        joined = packets.select(places, pl.all())
        emit(pl.concat([whole, joined]).sort("place", maintain_order=True).drop("place"))

    def on_punctuation(self, time: dt.datetime, state: TimedRows, emit: Emit) -> None:
        from penstock.operators.event_time import as_us

        now = as_us(time)
        if len(state) and state.times[0] + self.timeout_us < now:
            self._collect(state.frame().clear().drop(_SINCE), state, emit, now)

    @property
    def _most_tunnels(self) -> int:
        return MOST_TUNNELS if self.tunnels == "inner" else 0

    def _collect(self, new: pl.DataFrame, state: TimedRows, emit: Emit, now: int | None = None) -> Any:
        """Put fragments to those that wait; gives the packets that came together, and where the last was."""
        import numpy as np
        import polars as pl

        from penstock.frames._jit import readonly, within
        from penstock.net._fragment_kernels import collect
        from penstock.net._fragment_packets import Fragments
        from penstock.operators.event_time import NEVER, as_timestamps, times

        held = len(state)
        rows = pl.concat([state.frame().drop(_SINCE), new], rechunk=True) if held else new
        parts = Fragments.of(rows, self._most_tunnels)
        fates = np.zeros((f.FATE, rows.height), np.int64)
        fates[f.DATAGRAM] = -1
        given_up = np.zeros((f.GIVEN_UP, rows.height), np.int64)
        last = np.zeros(rows.height, np.int64)
        limits = np.array([self.timeout_us, self.packet_bytes, self.slice_bytes])
        is_tomb = np.zeros(rows.height, np.bool_)
        is_tomb[:held] = state.marks
        gone, count = collect(
            parts.datagrams, readonly(times(rows, "time")), parts.spans, readonly(state.times),
            is_tomb, held, limits, NEVER if now is None else now, fates, given_up, last,
        )  # fmt: skip
        within("datagrams given up", gone, rows.height)
        if gone:
            emit.to(_INCOMPLETE, _told(parts, given_up[:, :gone]))
        is_held = fates[f.LIFE] != f.GONE
        state.drop(~is_held[:held])
        if is_held[held:].any():
            since = as_timestamps(fates[f.SINCE, held:], _SINCE)
            state.append(new.with_columns(since).filter(pl.Series(is_held[held:])))
        state.mark(np.flatnonzero(fates[f.LIFE, is_held] == f.TOMB))
        if not count:
            return None
        return parts.joined(fates[f.DATAGRAM], last[:count], self._most_tunnels), last[:count] - held


def _told(parts: Fragments, given_up: Any) -> pl.DataFrame:
    """What was given up, as rows of the output "incomplete"."""
    import polars as pl

    rows = given_up[f.G_ROW]
    about: pl.DataFrame = parts.decoded[rows].with_columns(
        parts.rows["time"][rows],
        fragments=pl.Series(given_up[f.G_COUNT]).cast(pl.UInt32),
        bytes=pl.Series(given_up[f.G_BYTES]).cast(pl.UInt32),
        reason=pl.Series([f.INCOMPLETE[reason] for reason in given_up[f.G_REASON]], dtype=pl.String),
    )
    return about.select(*Defragment.outputs[_INCOMPLETE])
