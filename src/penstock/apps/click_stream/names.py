"""Pages and patterns travel as hashes of 64 bits; what they are called is told apart from them, once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl

import penstock as ps
from penstock.apps.click_stream import _kernels as kernels
from penstock.frames._jit import Column, readonly
from penstock.frames.hashing import stable_hash
from penstock.operators.event_time import NEVER

NAMES = "names"
SEPARATOR = " > "
NAMED: dict[str, Any] = {"step": "uint64", "time": dt.datetime, "text": str}
"""The columns of the output ``names``: ``time`` is the last pane in which the step occurs."""


def name_table() -> ps.KeyedTable:
    """Which text each hash stands for, and when it was last seen."""
    return ps.KeyedTable({"step": "uint64", "text": str}, {"seen": (int, NEVER)})


def hashed(texts: pl.Series) -> tuple[Column, Column, Column]:
    """The hash of each text, the number of each among the different ones, and where these come first."""
    hashes = stable_hash([texts])
    numbers, firsts = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
    count = kernels.numbered(readonly(hashes), slots_for(len(hashes)), numbers, firsts)
    return hashes, numbers, firsts[:count]


def slots_for(rows: int) -> Column:
    """An empty hash table for at most so many different rows."""
    return np.zeros(1 << (rows + rows // 2 + 1).bit_length(), np.int32)


def texts_of(table: ps.KeyedTable, steps: Column) -> pl.DataFrame:
    """The names of different steps that the table knows."""
    known = table.frame().select("step", "text")
    return known.filter(pl.col("step").is_in(pl.Series(steps).implode()))


def forget_before(table: ps.KeyedTable, bound: int) -> None:
    """Let go of what was last seen before a time."""
    rows = table.find(table.frame())  # KeyedTable has no other way to all of its rows
    table.remove(rows[table["seen"][rows] < bound])
