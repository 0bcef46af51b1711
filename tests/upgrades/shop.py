"""The stored runs: how they are unpacked, and what the shop must have counted at the end."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import polars as pl

import penstock as ps
from penstock.cli.loading import load
from penstock.connect.collect import read
from penstock.control.checkpoint import rebase

STORED = Path(__file__).parent / "stored"
APP = STORED / "stored_shop.py"
RUN, SAVEPOINT = "run-format-2.tar.xz", "savepoint-format-1.tar.xz"
"""Made by ``tests.upgrades.store``. A new format gets archives of its own beside these, which stay."""
SINKS = ("out-totals", "out-visitors", "out-ledger", "out-minutes")


def unpack(name: str, into: Path) -> Path:
    """Unpack a stored run or savepoint into a folder that is not there yet."""
    with tarfile.open(STORED / name) as archive:
        archive.extractall(into, filter="data")
    if (into / "checkpoint").exists():  # Spark notes whole paths of the schemas of its state
        rebase(into / "checkpoint", at=into / "checkpoint")
    return into


def topology() -> ps.Topology:
    """The topology of the stored runs, as `penstock run stored_shop.py` finds it."""
    return load(str(APP))


def expected(rows: int = 10_000) -> dict[str, list[tuple[str, ...]]]:
    """The last row of each user in each sink, from the numbers of the events alone.

    Order n is of user n % 7 at 100 ms times n and has the amount n % 10. Those below 3 are left out, the
    others doubled.
    """
    n = np.arange(rows)
    n = n[n % 10 >= 3]
    users, amounts = n % 7, n % 10 * 2
    totals, visitors, ledger = [], [], []
    for user in range(7):
        mine = amounts[users == user]
        name = f"user-{user}"
        totals.append((name, len(mine), int(mine.sum())))
        visitors.append((name, len(mine), len(set(mine.tolist()))))
        ledger.append((name, int(mine.sum())))
    return {"out-totals": totals, "out-visitors": visitors, "out-ledger": ledger}


def expected_minutes(rows: int = 10_000) -> list[tuple[str, int, int, int]]:
    """User, start of the window in µs since the first order, orders and amount: each window exactly once."""
    n = np.arange(rows)
    n = n[n % 10 >= 3]
    start_us = 1_760_000_000_000_000
    windows = (start_us + n * 100_000) // 180_000_000 * 180_000_000
    frame = pl.DataFrame({"user": n % 7, "start": windows, "amount": n % 10 * 2})
    summed = frame.group_by("user", "start").agg(pl.len(), pl.col("amount").sum())
    return sorted((f"user-{u}", s, c, a) for u, s, c, a in summed.iter_rows())


def require_expected(*directories: Path) -> None:
    """All that the directories collected together is what the shop must have counted, each row once."""
    for sink, rows in expected().items():
        last = read(directories[-1], sink)
        columns = last.columns
        got = last.group_by(columns[0], maintain_order=True).last().sort(columns[0])
        assert got.rows() == rows, sink
    windows = pl.concat([read(place, "out-minutes") for place in directories])
    figures = windows.select("user", pl.col("start").cast(pl.Int64), "orders", "amount")
    assert sorted(figures.rows()) == expected_minutes()
