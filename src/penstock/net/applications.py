"""Flows with the application that each belongs to.

packets.flat_map("key", net.application_key).key_by(*net.FLOW_KEY).process("apps", net.Applications())
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connect.durations import microseconds
from penstock.errors import BadArgument
from penstock.net.flows import with_key
from penstock.operators.operator import Emit, Operator

if TYPE_CHECKING:
    import polars as pl

    from penstock.net.dpi import Choice

SHARES = "shares"
CARRIER_COLUMNS = ("carrier_ip_high", "carrier_ip_low", "carrier_id")
CARRIED = ("outer_dst_ip_high", "outer_dst_ip_low")
_MOST_PACKETS, _MOST_BYTES = 16, 1 << 15


def application_key(packets: pl.DataFrame) -> pl.DataFrame:
    """Add the key of the conversation and the payload; needs the columns of `flow_key` and ``packet``.

    With the columns ``capture_file`` and ``capture_place`` payloads that lie in a plain file stay there:
    `Applications` reads those that it needs, and the others never leave the file. All machines of a run must
    see the file under its name, as they must anyway to read it.

    With the columns ``outer_dst_ip_high`` and ``outer_dst_ip_low`` each packet also says which tunnel of a
    mobile network carries it, so that `Applications` can tell whose a flow is.
    """
    import polars as pl

    from penstock.net._layout import GB, GTP
    from penstock.net._payloads import payload_columns

    more: list[str | pl.Expr] = ["payload_length", "tcp_seq", "tcp_ack", "icmp_type", "icmp_code"]
    more += payload_columns(packets)
    if CARRIED[0] in packets.columns:
        is_mobile = pl.col("tunnel").is_in([GTP, GB])
        for name, of in zip(CARRIER_COLUMNS, (*CARRIED, "tunnel_id"), strict=True):
            more.append(pl.when(is_mobile).then(of).otherwise(0).cast(packets.schema[of]).alias(name))
    return with_key(packets, *more)


@dataclass(frozen=True, init=False)
class Applications(Operator):
    """Keep a table of conversations, find out what each is, and emit it when it has ended.

    Flows end as those of `Flows` do and have the same columns, and ``application``, ``category``,
    ``confidence`` and ``host``. The first ``packets`` packets of a flow, up to ``bytes_kept`` bytes, are kept
    until it is decided; they are part of the state, and a verdict depends on nothing else, so it is the same
    after a recovery or a move. All machines of a run must have the same engine: name it to be sure.

    The output ``shares`` has the packets, bytes and new flows of each application as they come: each packet
    once, under the application that its flow has in the end (those of a flow that is not decided yet follow
    when it is). If packets say which tunnel carries them (see `application_key`), there is a row for each
    flow, and both outputs have `TUNNEL_KEY` and ``time``: the tunnel of the flow's first packet in one, and
    when that passed. Lead them through `Subscribers` to learn whose the flows are.
    """

    idle_us: int
    active_us: int
    packets: int
    bytes_kept: int
    engine: Choice

    outputs = {SHARES: {}}
    state_version = 2

    def __init__(
        self, *, idle: str | dt.timedelta = "120s", active: str | dt.timedelta = "30m", packets: int = 12,
        bytes_kept: int = 12_000, engine: Choice = "best",
    ) -> None:  # fmt: skip
        object.__setattr__(self, "idle_us", microseconds(idle, where="Applications", what="idle"))
        object.__setattr__(self, "active_us", microseconds(active, where="Applications", what="active"))
        for name, value, most in (
            ("packets", packets, _MOST_PACKETS),
            ("bytes_kept", bytes_kept, _MOST_BYTES),
        ):
            if not 0 < value <= most:
                raise BadArgument(where="Applications", what=name, got=str(value), allowed=f"1 … {most}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "engine", engine)

    def init_state(self) -> Any:
        from penstock.net._flow_table import new_state
        from penstock.net._judging import VALUES
        from penstock.net._kept import Blobs, Labels

        kept = {"packets": Blobs(), "hosts": Blobs(), "labels": Labels()}
        return {**new_state(self.idle_us, VALUES), **kept}

    def process(self, batch: pl.DataFrame, state: Any, emit: Emit) -> None:
        import numpy as np

        from penstock.net import _application_rows as rows
        from penstock.net import _flow_table as flow_table

        told = rows.Told(emit, has_carriers=CARRIER_COLUMNS[0] in batch.columns)
        if not batch.height:  # tells the plan the columns
            told.flows(state["flows"].frame(np.empty(0, np.int64)), rows.NO_HOSTS, is_new=True)
        packets = flow_table.Batch.of(batch)
        which, salt = np.arange(batch.height), 0
        while len(which):  # again only for flows that share 64 bits of their fingerprint
            taken = flow_table.take(state, packets, which, salt, self.idle_us, self.active_us)
            self._look(state, packets, taken, told)
            which, salt = taken.missed, salt + 1
        told.finish(state["labels"])

    def on_punctuation(self, time: dt.datetime, state: Any, emit: Emit) -> None:
        from penstock.net import _application_rows as rows
        from penstock.net import _flow_table as flow_table
        from penstock.net import _judging as judging
        from penstock.net.dpi import engine

        over = flow_table.expired(state, time, self.idle_us)
        if not len(over):
            return
        told = rows.Told(emit, has_carriers=CARRIED[0] in emit.columns(SHARES).names)
        flows = state["flows"].frame(over)
        is_open = flows["verdict"] == 0
        waiting = flows.filter(is_open)
        hosts = rows.hosts_of(state, flows.filter(~is_open))
        if waiting.height:
            verdicts = engine(self.engine).judge(judging.kept_packets(state, waiting))
            waiting = waiting.with_columns(verdict=judging.numbered(state, verdicts))
            told.flows(waiting, verdicts.hosts, is_new=True)
        told.flows(flows.filter(~is_open), hosts, is_new=False)
        for name in ("packets", "hosts"):
            state[name].drop(flows["flow"].to_list())
        state["flows"].remove(over)
        told.finish(state["labels"])

    def _look(self, state: Any, packets: Any, taken: Any, told: Any) -> None:
        """Count packets of decided flows; judge the others, and tell of those that ended."""
        import numpy as np

        from penstock.net import _application_kernels as k
        from penstock.net import _application_rows as rows
        from penstock.net import _judging as judging
        from penstock.net.dpi import engine

        picked = judging.pick(state, packets, taken, self.packets, self.bytes_kept)
        told.pieces(picked.pieces)
        ended = rows.with_endings(taken.ended, picked)
        hosts = rows.NO_HOSTS if ended is None else rows.hosts_of_ended(state, ended)
        numbers, found = np.empty(0, np.int64), rows.NO_HOSTS
        if picked.facts.shape[1]:
            groups = state["flows"].frame(picked.facts[k.ROW])
            given = judging.first_packets(state, packets, picked, groups)
            verdicts = engine(self.engine).judge(given)
            numbers = judging.settle(state, picked, groups, given, verdicts)
            found = verdicts.hosts
            told.new(rows.decided_now(state, picked, numbers))
        if ended is not None:
            told.ended(ended, hosts, numbers, found)
