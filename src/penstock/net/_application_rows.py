"""What `Applications` emits: flows with words, and shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames.types import polars_type
from penstock.net import _application_kernels as k
from penstock.net._flow_table import told
from penstock.net._judging import Picked
from penstock.net._kept import Labels
from penstock.operators.operator import Emit

_SUMS = ("packets", "bytes", "flows")
_WORDS = ("application", "category", "confidence", "host")


class Told:
    """Gathers flows and shares of one call, and emits them in words at its end."""

    def __init__(self, emit: Emit, imsi: pl.DataType | None) -> None:
        self._emit, self._imsi = emit, imsi
        self._flows: list[pl.DataFrame] = []
        self._shares: list[pl.DataFrame] = []

    def packets(self, frame: pl.DataFrame, labels: npt.NDArray[np.int64]) -> None:
        """Packets whose flows are decided."""
        columns = [pl.Series("verdict", labels), frame["length"].cast(pl.Int64).alias("bytes")]
        if self._imsi is not None:
            columns.append(frame["imsi"].cast(pl.UInt64, strict=False).fill_null(0))
        counted = pl.DataFrame(columns).filter(pl.col("verdict") > 0)
        sums = [pl.len().cast(pl.Int64).alias("packets"), pl.sum("bytes"), pl.lit(0, pl.Int64).alias("flows")]
        self._shares.append(counted.group_by(self._by("verdict")).agg(sums))

    def new(self, flows: pl.DataFrame) -> None:
        """Flows that are decided now, with all their packets."""
        self._shares.append(
            flows.select(
                pl.col("verdict").cast(pl.Int64),
                *(["imsi"] if self._imsi is not None else []),
                packets=pl.col("src2dst_packets") + pl.col("dst2src_packets"),
                bytes=pl.col("src2dst_bytes") + pl.col("dst2src_bytes"),
                flows=pl.lit(1, pl.Int64),
            )
        )

    def flows(self, flows: pl.DataFrame, hosts: dict[int, str], *, is_new: bool) -> None:
        """Flows that have ended; new ones are decided only now."""
        if is_new:
            self.new(flows)
        names: list[str | None] = [None] * flows.height
        for place, host in hosts.items():
            names[place] = host
        self._flows.append(flows.with_columns(pl.Series("host", names, dtype=pl.String)))

    def ended(
        self,
        flows: pl.DataFrame,
        hosts: dict[int, str],
        numbers: npt.NDArray[np.int64],
        found: dict[int, str],
    ) -> None:
        """Flows that ended in the middle of a batch: decided before, or judged now in their group."""
        group = flows["group"].to_numpy() - 1
        is_open = group >= 0
        verdict = flows["verdict"].to_numpy().astype(np.int64)
        verdict[is_open] = numbers[group[is_open]]
        named = {place: found[g] for place, g in enumerate(group.tolist()) if g in found}
        flows = flows.with_columns(pl.Series("verdict", verdict))
        self.new(flows.filter(pl.Series(is_open)))
        self.flows(flows, {**hosts, **named}, is_new=False)

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
        more = ["imsi"] if self._imsi is not None else []
        rows = told(flows.with_columns(named), *_WORDS, *more)
        self._emit(self._with_imsi(rows))

    def _emit_shares(self, words: pl.DataFrame) -> None:
        if not self._shares:
            return
        shares = pl.concat(self._shares)
        named = [words[name].gather(shares["verdict"]).alias(name) for name in _WORDS[:2]]
        by = self._by(*_WORDS[:2])
        sums = shares.with_columns(named).group_by(by).agg(pl.sum(*_SUMS)).sort(by)
        self._emit.to("shares", self._with_imsi(sums))

    def _by(self, *names: str) -> list[str]:
        return [*names, "imsi"] if self._imsi is not None else [*names]

    def _with_imsi(self, rows: pl.DataFrame) -> pl.DataFrame:
        if self._imsi is None:
            return rows
        return rows.with_columns(pl.col("imsi").replace(0, None).cast(self._imsi))


def imsi_type(emit: Emit) -> pl.DataType | None:
    """The type of the subscriber in what is emitted, if it is there."""
    columns = dict(emit.columns().columns)
    return polars_type(columns["imsi"]) if "imsi" in columns else None


def with_endings(ended: pl.DataFrame | None, picked: Picked) -> pl.DataFrame | None:
    """The flows that ended, with the labels and subscribers that they had."""
    if ended is None:
        return None
    return ended.with_columns(
        pl.Series("verdict", picked.ended[k.LABEL]),
        pl.Series("group", picked.ended[k.GROUP]),
        pl.Series("imsi", picked.ended[k.SUBSCRIBER]).cast(pl.UInt64),
    )


def hosts_of(state: Any, flows: pl.DataFrame) -> dict[int, str]:
    """The hosts of decided flows, by place."""
    found = ((place, state["hosts"].get(flow)) for place, flow in enumerate(flows["flow"].to_list()))
    return {place: host.decode() for place, host in found if host}


def hosts_of_decided(state: Any, ended: pl.DataFrame | None) -> dict[int, str]:
    """The hosts of flows that ended in a batch after they were decided; they are forgotten."""
    if ended is None:
        return {}
    ids = ended["flow"].to_list()
    decided = np.flatnonzero(ended["verdict"].to_numpy() > 0).tolist()
    hosts = {place: state["hosts"].get(ids[place]) for place in decided}
    state["hosts"].drop(ids[place] for place in decided)
    return {place: host.decode() for place, host in hosts.items() if host}


def decided_now(state: Any, picked: Picked, numbers: npt.NDArray[np.int64]) -> pl.DataFrame:
    """The flows that go on and were decided in this batch."""
    is_live = picked.facts[k.ENDED] == 0
    frame: pl.DataFrame = state["flows"].frame(picked.facts[k.ROW][is_live & (numbers > 0)])
    return frame
