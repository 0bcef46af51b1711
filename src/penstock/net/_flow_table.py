"""The table of conversations that operators on flows share: find, count, expire."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames._jit import readonly
from penstock.net import _deadlines
from penstock.net import _flow_kernels as kernels
from penstock.net._deadlines import Deadlines
from penstock.net.flows import ENDS, KEY, VALUES
from penstock.operators.keyed import KeyedTable

Numbers = npt.NDArray[np.int64]
KERNEL_ORDER = (
    "check", "first_time", "last_time", "is_forward", "src2dst_packets", "src2dst_bytes", "src2dst_flags",
    "dst2src_packets", "dst2src_bytes", "dst2src_flags",
)  # fmt: skip
_CHECKS = {"check": "uint64"}


def new_state(idle_us: int, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A table of no flows, with more values per flow if wanted.

    A flow is found by 64 bits of its key and checked with 64 more: looking up nine columns would cost
    more than all the rest.
    """
    values = {**_CHECKS, **KEY, **VALUES, **(more or {})}
    return {"flows": KeyedTable({"flow": "uint64"}, values), "deadlines": Deadlines(idle_us)}


@dataclass(frozen=True, slots=True)
class Batch:
    """The columns of a batch of packets, as arrays."""

    frame: pl.DataFrame
    flow: npt.NDArray[np.uint64]
    check: npt.NDArray[np.uint64]
    counted: tuple[npt.NDArray[Any], ...]
    """Time, length, direction and TCP flags."""

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Batch:
        flow, check = (np.empty(frame.height, np.uint64) for _ in range(2))
        fingerprint: Any = kernels.fingerprint
        fingerprint(*(readonly(frame[name].to_numpy()) for name in KEY), flow, check)
        length = frame["length"]
        length = length if length.dtype == pl.UInt32 else length.cast(pl.UInt32)
        columns = (frame["time"].to_physical(), length, frame["forward"], frame["tcp_flags"])
        return cls(frame, flow, check, tuple(readonly(column.to_numpy()) for column in columns))

    def rows(self, table: KeyedTable, which: Numbers, salt: int) -> Numbers:
        """The row of each of these packets' flows."""
        flow = self.flow if len(which) == len(self.flow) else self.flow[which]
        return table.rows([pl.Series("flow", flow + np.uint64(salt))])


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of counting packets."""

    which: Numbers
    rows: Numbers
    """The row of each packet of ``which``."""
    ended: pl.DataFrame | None
    """The flows that ended, as they were."""
    ended_at: Numbers
    """The places in ``which`` of the packets that came too late for them."""
    missed: Numbers
    """The packets that met another flow in their row."""


def take(
    state: Mapping[str, Any], batch: Batch, which: Numbers, salt: int, idle_us: int, active_us: int
) -> Taken:
    """Count packets."""
    table = state["flows"]
    rows = batch.rows(table, which, salt)
    ended_rows, ended_at, new, missed = (np.empty(len(rows), np.int64) for _ in range(4))
    ended = np.empty((kernels.VALUES, len(rows)), np.int64)
    count_packets: Any = kernels.take
    count, begun, strange = count_packets(
        which, rows, batch.check, *batch.counted, idle_us, active_us,
        *(table[name] for name in KERNEL_ORDER), ended_rows, ended_at, ended, new, missed,
    )  # fmt: skip
    begin(state, idle_us, batch, rows[new[:begun]], which[new[:begun]])
    over = ended_frame(table, ended_rows[:count], ended[:, :count]) if count else None
    missed = missed[:strange]
    if strange:
        has_met = np.isin(which, missed)
        which, rows = which[~has_met], rows[~has_met]
        ended_at[:count] -= np.cumsum(has_met)[ended_at[:count]]
    return Taken(which, rows, over, ended_at[:count], missed)


def begin(state: Mapping[str, Any], idle_us: int, batch: Batch, rows: Numbers, packets: Numbers) -> None:
    """Note the keys of new flows, and when they may be over."""
    table, deadlines = state["flows"], state["deadlines"]
    for name in KEY:
        table[name][rows] = batch.frame[name].to_numpy()[packets]
    deadlines.enter(rows, table["first_time"][rows] + idle_us)


def expired(state: Mapping[str, Any], time: dt.datetime, idle_us: int) -> Numbers:
    """The rows that are over at this punctuation, ascending; the others wait on."""
    return _deadlines.expired(
        state["flows"], state["deadlines"], time, key=("flow",), last="last_time", span_us=idle_us
    )


def ended_frame(table: KeyedTable, rows: Numbers, ended: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Flows that ended within a batch: their keys, and their values as they were."""
    frame = table.frame(rows)
    values = [pl.Series(name, ended[k]).cast(frame.schema[name]) for k, name in enumerate(VALUES)]
    return frame.with_columns(values)


def told(flows: pl.DataFrame, *more: str) -> pl.DataFrame:
    """From the lesser and greater end to who began and who answered."""
    from penstock.net.flows import Flows

    src = [pl.when("is_forward").then(f"a_{n}").otherwise(f"b_{n}").alias(f"src_{n}") for n in ENDS]
    dst = [pl.when("is_forward").then(f"b_{n}").otherwise(f"a_{n}").alias(f"dst_{n}") for n in ENDS]
    return flows.with_columns(*src, *dst).select(*Flows.returns, *more)
