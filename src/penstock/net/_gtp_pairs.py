"""Requests of GTP's control plane with their responses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from penstock.net._gtp_ies import OK
from penstock.operators.timed_rows import TimedRows

_KINDS = [f"{what} {way}" for what in ("create", "update", "modify", "delete", "release")
          for way in ("request", "response")]  # fmt: skip
_NODES = ("src_ip_high", "src_ip_low", "dst_ip_high", "dst_ip_low")
_BACK = ("dst_ip_high", "dst_ip_low", "src_ip_high", "src_ip_low")
_EXCHANGE = ("version", "message_type", "sequence")
_ORDER = ["time", *_EXCHANGE, *_NODES]


class Pairs(NamedTuple):
    """What became of the requests."""

    answered: pl.DataFrame
    """Requests, with the columns of the first response behind each as ``…_response``, by its time."""
    unanswered: list[tuple[Any, ...]]
    """(time, version, kind, why) of those that are given up."""


def of_sessions(control: pl.DataFrame) -> pl.DataFrame:
    """The messages that begin, change or end sessions and are whole."""
    return control.filter(
        pl.col("kind").is_in(_KINDS)
        & pl.col("version").is_in([1, 2])
        & (pl.col("reason") == OK)
        & pl.col("sequence").is_not_null()
        & pl.col("time").is_not_null()
    )


def pairs(waiting: TimedRows, clock_us: int, wait_us: int) -> Pairs:
    """Take from what waits all messages before the clock that are paired or given up.

    Requests stay until they are answered or too old; a request that is repeated counts as one.
    """
    due = waiting.times < clock_us
    placed = waiting.gather(np.flatnonzero(due)).with_row_index("place")
    numbered = placed.sort(_ORDER, maintain_order=True).with_row_index("row")  # not by arrival
    is_request = pl.col("kind").str.ends_with("request")
    requests = numbered.filter(is_request)
    responses = numbered.filter(~is_request).with_columns(pl.col("message_type") - 1)
    found = requests.join(
        responses, left_on=[*_NODES, *_EXCHANGE], right_on=[*_BACK, *_EXCHANGE], suffix="_response"
    )
    # The wait counts here too: what is paired must not depend on when requests are given up.
    delay_us = (pl.col("time_response") - pl.col("time")).dt.total_microseconds()
    found = found.filter((delay_us >= 0) & (delay_us <= wait_us))
    found = found.sort([*(f"{name}_response" for name in ("time", "row")), "time", "row"])
    answered = found.unique("row_response", keep="first", maintain_order=True)
    answered = answered.unique("row", keep="first", maintain_order=True)
    kept = np.zeros(len(due), np.bool_)
    is_old = (pl.col("time").to_physical() < clock_us - wait_us) & ~pl.col("row").is_in(
        found["row"].implode()
    )
    old = requests.filter(is_old)
    open_rows = requests.filter(~pl.col("row").is_in(pl.concat([found["row"], old["row"]]).implode()))
    kept[np.flatnonzero(due)[open_rows["place"].to_numpy()]] = True
    waiting.drop(due & ~kept)
    given_up = old.unique([*_NODES, *_EXCHANGE], keep="first", maintain_order=True)
    unanswered = given_up.select("time", "version", "kind", pl.lit("not answered")).rows()
    return Pairs(answered, unanswered)
