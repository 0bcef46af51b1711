"""TCP segments to the bytes that were sent, in order.

packets.map("segments", net.tcp_segments).key_by(*net.FLOW_KEY).process("streams", net.TcpStreams())
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument
from penstock.net import _tcp_layout as y
from penstock.net.flows import FLOW_KEY
from penstock.operators.keyed import KeyedTable
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

_TCP = 6
_WIDTHS = ("uint64", "uint64", "uint16", "uint64", "uint64", "uint16", "uint8", "uint16", "uint32")
_KEY_TYPES = dict(zip(FLOW_KEY, _WIDTHS, strict=True))
_FLOWS, _WAITING = "flows", "waiting"
EVICTED = "evicted"


def tcp_segments(packets: pl.DataFrame) -> pl.DataFrame:
    """The TCP segments of packets with their payload and the key of their conversation.

    Takes the rows of `Pcap` with the column "packet". Fragments and packets whose TCP header is not whole are
    left out: put `Defragment` before.
    """
    import numpy as np
    import polars as pl

    from penstock.frames.hashing import byte_buffers
    from penstock.net._gather import gathered
    from penstock.net._layout import OK, TOO_LONG
    from penstock.net.flows import flow_key

    kept = packets.filter(
        (pl.col("protocol") == _TCP)
        & (pl.col("ip_version") > 0)
        & pl.col("time").is_not_null()
        & pl.col("reason").is_in([OK, TOO_LONG])
        & (pl.col("fragment_offset") == 0)
        & (pl.col("more_fragments") == 0)
    )
    ends, data = byte_buffers(kept["packet"])
    starts = np.minimum(ends[:-1] + kept["payload_offset"].to_numpy(), ends[1:])
    sizes = np.minimum(ends[1:] - starts, kept["payload_length"].to_numpy())
    payload = gathered("payload", starts, sizes, data)
    keys = flow_key(kept).select(*FLOW_KEY, "forward", "time", "tcp_flags")
    return keys.with_columns(kept["tcp_seq"], kept["payload_length"], payload)


@dataclass(frozen=True, init=False)
class TcpStreams(Operator):
    """Give out the bytes of each direction of a TCP connection in order and once.

    A row has the bytes that one segment brought (``data``), their place in the stream (``offset``, from
    0 at the SYN or the first segment seen) and time, and how many bytes are missing right before them
    (``gap_bytes``, with ``gap_reason``); a row without bytes tells what is missing at the end of
    a stream. ``forward`` is the direction from `a` to `b` of the key; ``connection`` counts connections that
    follow each other between the same ends.

    What comes again is left out. Of overlapping segments the bytes that came first win, as in Zeek.
    A stream ends at its FIN, at a RST of either side, when a SYN begins another connection, or when the flow
    has had no packet for ``idle``. Time is that of the packets.

    Bytes that came too early wait for those before them until ``wait`` is over, or until they hold more than
    ``direction_bytes`` in a direction or ``slice_bytes`` in a slice (128 bytes are counted for each
    piece besides its own); then the gap is given up and counted. The rows given out then
    are as old as their segments.

    A slice knows at most ``slice_flows`` connections at the end of an epoch: of more, those that were silent
    longest are ended (reason "no memory") and told in the output ``evicted``, one row each. Such a connection
    begins anew if it goes on.

    The output does not depend on how epochs are cut, if no packet comes later than the source's lateness and
    no connection is evicted.
    """

    wait_us: int
    idle_us: int
    direction_bytes: int
    slice_bytes: int
    slice_flows: int

    returns = {
        **_KEY_TYPES,
        "forward": "bool",
        "connection": "uint32",
        "offset": "int64",
        "time": "timestamp",
        "data": "binary",
        "gap_bytes": "int64",
        "gap_reason": "string",
    }
    outputs = {EVICTED: {**_KEY_TYPES, "last_time": "timestamp", "connection": "uint32"}}

    def __init__(
        self,
        *,
        wait: str | dt.timedelta = "10s",
        idle: str | dt.timedelta = "120s",
        direction_bytes: int = 1 << 20,
        slice_bytes: int = 16 << 20,
        slice_flows: int = 1 << 18,
    ) -> None:
        where = "TcpStreams"
        for what, got in (
            ("direction_bytes", direction_bytes),
            ("slice_bytes", slice_bytes),
            ("slice_flows", slice_flows),
        ):
            if got < 1:
                raise BadArgument(where=where, what=what, got=got, allowed="1 or more")
            object.__setattr__(self, what, got)
        object.__setattr__(self, "wait_us", microseconds(wait, where=where, what="wait"))
        object.__setattr__(self, "idle_us", microseconds(idle, where=where, what="idle"))

    def init_state(self) -> dict[str, Any]:
        from penstock.net._tcp_waiting import SINCE
        from penstock.operators.timed_rows import TimedRows

        return {_FLOWS: KeyedTable(key=_KEY_TYPES, values=y.FLOW_VALUES), _WAITING: TimedRows(SINCE)}

    def process(self, batch: pl.DataFrame, state: dict[str, Any], emit: Emit) -> None:
        import numpy as np

        from penstock.frames.hashing import byte_buffers
        from penstock.net._tcp_waiting import Work
        from penstock.operators.event_time import NEVER, times

        if not batch.height:
            return
        segments = np.empty((batch.height, y.SEGMENT), np.int64)
        segments[:, y.ROW] = state[_FLOWS].rows(batch.select(*FLOW_KEY))
        segments[:, y.SIDE] = batch["forward"].to_numpy()
        segments[:, y.TIME] = times(batch, "time")
        segments[:, y.SEQ] = batch["tcp_seq"].to_numpy()
        segments[:, y.TCP_FLAGS] = batch["tcp_flags"].to_numpy()
        segments[:, y.LENGTH] = batch["payload_length"].to_numpy()
        ends, data = byte_buffers(batch["payload"])
        segments[:, y.PLACE], segments[:, y.SIZE] = ends[:-1], np.diff(ends)
        work = Work(state[_FLOWS], state[_WAITING], segments, data)
        self._take(work, NEVER)
        self._close(work, emit)
        self._keep_bound(state, emit)

    def on_punctuation(self, time: dt.datetime, state: dict[str, Any], emit: Emit) -> None:
        import numpy as np

        from penstock.net._tcp_waiting import Work
        from penstock.operators.event_time import as_us

        now, flows, waiting = as_us(time), state[_FLOWS], state[_WAITING]
        is_idle = (flows["is_open"] == 1) & (flows["last_time_us"] + self.idle_us < now)
        if not is_idle.any() and not (len(waiting) and waiting.times[0] + self.wait_us < now):
            return
        nothing = np.empty((0, y.SEGMENT), np.int64)
        work = Work(flows, waiting, nothing, others=np.flatnonzero(is_idle))
        self._take(work, now)
        self._end(work, work.others[~work.is_waiting()[work.others]], y.LOST, flows, emit)

    def _keep_bound(self, state: dict[str, Any], emit: Emit) -> None:
        """End the flows that were silent longest if there are too many; some more, so that it is seldom."""
        import numpy as np
        import polars as pl

        from penstock.net._tcp_waiting import Work
        from penstock.operators.event_time import NEVER, as_timestamps

        flows = state[_FLOWS]
        rows = np.flatnonzero(flows["is_open"] == 1)
        if len(rows) <= self.slice_flows:
            return
        known = flows.frame(rows).select(*FLOW_KEY, "last_time_us", pl.col("connection").cast(pl.UInt32))
        # The key decides between equals: the numbers of rows may change when a state is moved.
        oldest = known.with_row_index("place").sort("last_time_us", *FLOW_KEY)
        gone = oldest[: len(rows) - self.slice_flows * 15 // 16]
        nothing = np.empty((0, y.SEGMENT), np.int64)
        work = Work(flows, state[_WAITING], nothing, others=rows[gone["place"].to_numpy()])
        self._take(work, NEVER)
        self._end(work, work.others, y.NO_MEMORY, flows, emit)
        last = as_timestamps(gone["last_time_us"].to_numpy(), "last_time")
        emit.to(EVICTED, gone.with_columns(last).select(*self.outputs[EVICTED]))

    def _end(self, work: Any, ended: Any, why: int, flows: KeyedTable, emit: Emit) -> None:
        from penstock.net import _tcp_kernels as kernels

        kernels.end(ended, why, work.flows, work.pieces, work.ends, work.out, work.count)
        work.flows[ended, y.IS_OPEN] = 0
        self._close(work, emit)
        flows.remove(work.rows(ended))

    def _take(self, work: Any, now: int) -> None:
        import numpy as np

        from penstock.net import _tcp_kernels as kernels

        limits = np.array([self.wait_us, self.idle_us, self.direction_bytes, self.slice_bytes])
        kernels.take(
            work.segments, work.held, now, limits, work.flows, work.pieces, work.ends, work.out, work.count
        )

    @staticmethod
    def _close(work: Any, emit: Emit) -> None:
        work.save()
        if work.count[y.OUTS]:
            emit(work.given_out().select(*TcpStreams.returns))
