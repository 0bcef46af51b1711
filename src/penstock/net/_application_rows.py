"""What `Applications` emits: flows with words, and shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames.types import polars_type
from penstock.net import _application_kernels as k
from penstock.net._flow_table import told
from penstock.net._judging import CARRIER, Picked
from penstock.net._kept import Labels
from penstock.net.applications import CARRIED
from penstock.operators.operator import Emit

_SUMS = ("packets", "bytes", "flows")
_WORDS = ("application", "category", "confidence", "host")
NO_HOSTS = pl.Series("host", dtype=pl.String)
_NAMES = dict(zip(CARRIER, (*CARRIED, "tunnel_id", "time"), strict=True))
_KINDS = [polars_type(kind) for kind in CARRIER.values()]


class Told:
    """Gathers flows and shares of one call, and emits them in words at its end."""

    def __init__(self, emit: Emit, *, has_carriers: bool) -> None:
        self._emit, self._has_carriers = emit, has_carriers
        self._flows: list[pl.DataFrame] = []
        self._shares: list[pl.DataFrame] = []

    def pieces(self, pieces: npt.NDArray[np.int64]) -> None:
        """What flows had that were decided before."""
        counts = {"verdict": k.P_LABEL, "packets": k.P_PACKETS, "bytes": k.P_BYTES}
        columns = [pl.Series(name, pieces[row]) for name, row in counts.items()]
        columns.append(pl.Series("flows", np.zeros(pieces.shape[1], np.int64)))
        if self._has_carriers:
            columns += _carriers(pieces[k.P_CARRIER :])
        self._shares.append(pl.DataFrame(columns))

    def new(self, flows: pl.DataFrame) -> None:
        """Flows that are decided now, with all their packets."""
        self._shares.append(
            flows.select(
                pl.col("verdict").cast(pl.Int64),
                packets=pl.col("src2dst_packets") + pl.col("dst2src_packets"),
                bytes=pl.col("src2dst_bytes") + pl.col("dst2src_bytes"),
                flows=pl.lit(1, pl.Int64),
                **{name: pl.col(name) for name in CARRIER if self._has_carriers},
            )
        )

    def flows(self, flows: pl.DataFrame, hosts: pl.Series, *, is_new: bool) -> None:
        """Flows that have ended, with their hosts; new ones are decided only now."""
        if is_new:
            self.new(flows)
        self._flows.append(flows.with_columns(hosts.alias("host")))

    def ended(
        self,
        flows: pl.DataFrame,
        hosts: pl.Series,
        numbers: npt.NDArray[np.int64],
        found: pl.Series,
    ) -> None:
        """Flows that ended in the middle of a batch: decided before, or judged now in their group."""
        group = flows["group"].to_numpy() - 1
        is_open = group >= 0
        verdict = flows["verdict"].to_numpy().astype(np.int64)
        verdict[is_open] = numbers[group[is_open]]
        flows = flows.with_columns(pl.Series("verdict", verdict))
        self.new(flows.filter(pl.Series(is_open)))
        hosts = hosts.scatter(np.flatnonzero(is_open), found.gather(group[is_open]))
        self.flows(flows, hosts, is_new=False)

    def finish(self, labels: Labels) -> None:
        """Emit all; for a batch without rows as well, which tells the plan the columns."""
        words = labels.frame()
        self._emit_flows(words)
        self._emit_shares(words)

    def _emit_flows(self, words: pl.DataFrame) -> None:
        if not self._flows:
            return
        flows = pl.concat(self._flows, how="diagonal_relaxed")
        named = [words[name].gather(flows["verdict"]).alias(name) for name in _WORDS[:3]]
        if not self._has_carriers:
            self._emit(told(flows.with_columns(named), *_WORDS))
            return
        number = pl.when(_IS_CARRIED).then("carrier_id").otherwise("tunnel_id").alias("tunnel_id")
        carried = told(flows.with_columns(*named, number), *_WORDS, *CARRIER)
        self._emit(_outer(carried.drop("carrier_id")))

    def _emit_shares(self, words: pl.DataFrame) -> None:
        if not self._shares:
            return
        shares = pl.concat(self._shares)
        if not self._has_carriers:
            shares = shares.group_by("verdict", maintain_order=True).agg(pl.sum(*_SUMS))
        named = [words[name].gather(shares["verdict"]).alias(name) for name in _WORDS[:2]]
        rows = shares.select(*named, *_SUMS, *(CARRIER if self._has_carriers else ()))
        self._emit.to("shares", _outer(rows) if self._has_carriers else rows)


_IS_CARRIED = (pl.col("carrier_ip_high") > 0) | (pl.col("carrier_ip_low") > 0)


def _outer(rows: pl.DataFrame) -> pl.DataFrame:
    """What carries each flow in the words of packets; without a time where nothing does."""
    since = pl.when(_IS_CARRIED).then("carrier_since").alias("carrier_since")
    return rows.with_columns(since).rename(_NAMES, strict=False)


def _carriers(numbers: npt.NDArray[np.int64]) -> list[pl.Series]:
    """What the kernel wrote down, in the types of the table."""
    high, low, number, since = numbers
    values = (high.view(np.uint64), low.view(np.uint64), number.astype(np.uint32), since)
    return [pl.Series(name, v).cast(kind) for name, v, kind in zip(CARRIER, values, _KINDS, strict=True)]


def with_endings(ended: pl.DataFrame | None, picked: Picked) -> pl.DataFrame | None:
    """The flows that ended, with the labels that they had and what carried them."""
    if ended is None:
        return None
    return ended.with_columns(
        pl.Series("verdict", picked.ended[k.LABEL]),
        pl.Series("group", picked.ended[k.GROUP]),
        *_carriers(picked.ended[k.CARRIER :]),
    )


def hosts_of(state: Any, flows: pl.DataFrame) -> pl.Series:
    """The hosts of decided flows; null where none was named."""
    return pl.Series(state["hosts"].get(flows["flow"].to_list()), dtype=pl.Binary).cast(pl.String)


def hosts_of_ended(state: Any, ended: pl.DataFrame) -> pl.Series:
    """The hosts of flows that ended in a batch after they were decided; they are forgotten."""
    hosts = hosts_of(state, ended)
    state["hosts"].drop(ended["flow"].to_list())
    return hosts


def decided_now(state: Any, picked: Picked, numbers: npt.NDArray[np.int64]) -> pl.DataFrame:
    """The flows that go on and were decided in this batch."""
    is_live = picked.facts[k.ENDED] == 0
    frame: pl.DataFrame = state["flows"].frame(picked.facts[k.ROW][is_live & (numbers > 0)])
    return frame
