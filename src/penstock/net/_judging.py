"""From packets to verdicts: keeps the first packets of flows, asks the engine, notes what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import readonly
from penstock.net import _application_kernels as k
from penstock.net._flow_table import Batch, Taken
from penstock.net._payloads import payloads_of
from penstock.net.applications import CARRIER_COLUMNS
from penstock.net.dpi import records
from penstock.net.dpi.verdict import FirstPackets, Verdicts

Numbers = npt.NDArray[np.int64]
CARRIER = {
    "carrier_ip_high": "uint64", "carrier_ip_low": "uint64", "carrier_id": "uint32",
    "carrier_since": "timestamp",
}  # fmt: skip
"""Where the first packet of a flow that came in a tunnel went in the outer network, and when."""
VALUES = {"verdict": "int32", "kept": "uint8", "kept_bytes": "int32", **CARRIER}
"""What the flow table has more: the number of the label (0: not decided), packets and bytes kept."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Which packets of a batch are kept, in groups: the kept packets of one life of a flow."""

    packets: Numbers
    """The packets that are kept, and the group and room of each."""
    groups: Numbers
    room: Numbers
    facts: Numbers
    pieces: Numbers
    """What flows had in this batch that were decided before it."""
    ended: Numbers


def pick(state: Mapping[str, Any], batch: Batch, taken: Taken, most_packets: int, most_bytes: int) -> Picked:
    """Sort packets of decided flows from those that an engine must see."""
    table, n = state["flows"], batch.frame.height
    groups, room, piece_rows = (np.full(n, -1, np.int64) for _ in range(3))
    facts = np.empty((k.FACTS, len(taken.which) + len(taken.ended_at)), np.int64)
    pieces = np.empty((k.PIECE, len(taken.which)), np.int64)
    ended = np.empty((k.ENDINGS, len(taken.ended_at)), np.int64)
    time, length, _, flags = batch.counted
    sort_out: Any = k.pick
    count, told = sort_out(
        taken.which, taken.rows, taken.ended_at, readonly(batch.frame["payload_size"].to_numpy()),
        time, length, flags, readonly(batch.frame["protocol"].to_numpy()), *carriers(batch.frame),
        most_packets, most_bytes, records.HEAD, *(table[name] for name in VALUES),
        *(np.zeros(len(table["kept"]), np.int32) for _ in range(2)),
        groups, room, facts, pieces, piece_rows, ended,
    )  # fmt: skip
    packets = np.flatnonzero(groups >= 0)
    return Picked(packets, groups[packets], room[packets], facts[:, :count], pieces[:, :told], ended)


def carriers(frame: pl.DataFrame) -> tuple[npt.NDArray[Any], ...]:
    """What carries each packet; nothing if the packets do not say it."""
    if CARRIER_COLUMNS[1] not in frame.columns:
        return tuple(readonly(np.empty(0, kind)) for kind in (np.uint64, np.uint64, np.uint32))
    return tuple(readonly(frame[name].to_numpy()) for name in CARRIER_COLUMNS)


def first_packets(
    state: Mapping[str, Any], batch: Batch, picked: Picked, flows: pl.DataFrame
) -> FirstPackets:
    """What the engine gets: the packets that were kept before, and behind them those of this batch."""
    with_past = np.flatnonzero(picked.facts[k.HAS_PAST])
    past = _packets_of(state, flows["flow"].gather(with_past))
    before = np.zeros(flows.height, np.int64)
    before[with_past] = list(map(len, past))
    ends = np.zeros(flows.height + 1, np.int64)
    np.cumsum(before + picked.facts[k.SIZE], out=ends[1:])
    data = np.zeros(int(ends[-1]), np.uint8)
    for begin, content in zip(ends[with_past].tolist(), past, strict=True):
        data[begin : begin + len(content)] = np.frombuffer(content, np.uint8)
    _write(batch.frame[picked.packets], picked, ends[:-1] + before, data)
    return _of(flows, data, ends, picked.facts[k.IS_LAST] == 1)


def _write(frame: pl.DataFrame, picked: Picked, cursor: Numbers, data: npt.NDArray[np.uint8]) -> None:
    columns = ("time", "tcp_seq", "tcp_ack", "payload_length", "tcp_flags", "icmp_type", "icmp_code")
    arrays = [readonly(frame[name].to_physical().to_numpy()) for name in columns]
    is_reply = readonly((~frame["forward"]).cast(pl.UInt8).to_numpy())
    begins = np.empty(frame.height, np.int64)
    write: Any = records.write
    write(picked.groups, is_reply, *arrays, picked.room, cursor, data, begins)
    for payloads in payloads_of(frame):
        payloads.copy_to(data, begins, picked.room)


def kept_packets(state: Mapping[str, Any], flows: pl.DataFrame) -> FirstPackets:
    """The packets that were kept of flows that are over."""
    content = _packets_of(state, flows["flow"])
    ends = np.zeros(len(content) + 1, np.int64)
    np.cumsum([len(part) for part in content], out=ends[1:])
    data = np.frombuffer(b"".join(content), np.uint8)
    return _of(flows, data, ends, np.ones(len(content), np.bool_))


def _packets_of(state: Mapping[str, Any], flows: pl.Series) -> list[bytes]:
    return [content or b"" for content in state["packets"].get(flows.to_list())]


def _of(
    flows: pl.DataFrame, data: npt.NDArray[np.uint8], ends: Numbers, is_last: npt.NDArray[np.bool_]
) -> FirstPackets:
    return FirstPackets(
        data, ends,
        src_high=flows["a_ip_high"].to_numpy(), src_low=flows["a_ip_low"].to_numpy(),
        dst_high=flows["b_ip_high"].to_numpy(), dst_low=flows["b_ip_low"].to_numpy(),
        src_port=flows["a_port"].to_numpy(), dst_port=flows["b_port"].to_numpy(),
        protocol=flows["protocol"].to_numpy(), is_last=is_last,
    )  # fmt: skip


def numbered(state: Mapping[str, Any], verdicts: Verdicts) -> Numbers:
    """The number of each flow's label; 0 if it is not decided."""
    used, place = np.unique(verdicts.label, return_inverse=True)
    # Only what is decided is noted, so that the numbers do not depend on what an engine says on the way.
    is_used = np.zeros(len(used), np.bool_)
    is_used[place[verdicts.is_decided]] = True
    numbers = np.zeros(len(used), np.int64)
    found = [verdicts.labels[label] for label in used[is_used].tolist()]
    numbers[is_used] = state["labels"].numbers(found)
    return np.where(verdicts.is_decided, numbers[place], 0)


def settle(
    state: Mapping[str, Any], picked: Picked, flows: pl.DataFrame, given: FirstPackets, verdicts: Verdicts
) -> Numbers:
    """Note verdicts, let go of packets, keep those of flows that wait; gives the number of each label."""
    numbers = numbered(state, verdicts)
    is_live = picked.facts[k.ENDED] == 0
    rows, ids = picked.facts[k.ROW], flows["flow"]
    done, waiting = is_live & (numbers > 0), is_live & (numbers == 0)
    state["flows"]["verdict"][rows[done]] = numbers[done]
    had_past = picked.facts[k.HAS_PAST] == 1
    state["packets"].drop(ids.filter(had_past & ~waiting).to_list())
    begins, ends = (given.ends[part][waiting].tolist() for part in (slice(-1), slice(1, None)))
    first_ones = (given.data[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True))
    state["packets"].put(ids.filter(waiting).to_list(), first_ones)
    is_named = pl.Series(done) & verdicts.hosts.is_not_null()
    hosts = verdicts.hosts.filter(is_named).cast(pl.Binary)
    state["hosts"].put(ids.filter(is_named).to_list(), hosts.to_list())
    return numbers
