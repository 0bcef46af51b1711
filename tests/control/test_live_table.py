"""A table of results that is watched while it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import penstock as ps
from penstock.control.live_table import LiveTable, Shown
from penstock.errors import BadArgument

LIVE = LiveTable(
    title="shares",
    sink="table",
    key=("app",),
    columns=("app", "bytes"),
    order_by="bytes",
    top=2,
    shares=("bytes",),
)


def topology(path: Path) -> ps.Topology:
    top = ps.Topology("watched")
    source = ps.Generator(lambda first, count: pl.DataFrame(), schema={"app": str, "bytes": int}, rows=1)
    top.source("gen", source).sink("table", ps.Delta(path))
    return top


def rows(shown: Shown | None) -> list[tuple[object, ...]]:
    assert shown is not None
    return [tuple(row.values()) for row in shown.rows]


def test_the_newest_row_of_each_key_is_shown_with_its_share(tmp_path: Path) -> None:
    followed = LIVE.follow(topology(tmp_path / "t"))
    assert followed.look() is None, "nothing was written yet"
    pl.DataFrame({"app": ["dns", "web"], "bytes": [10, 30]}).write_delta(tmp_path / "t")
    assert rows(followed.look()) == [("web", 30, 0.75), ("dns", 10, 0.25)]
    pl.DataFrame({"app": ["dns", "sip"], "bytes": [60, 10]}).write_delta(tmp_path / "t", mode="append")
    shown = followed.look()
    assert rows(shown) == [("dns", 60, 0.6), ("web", 30, 0.3)]
    assert shown is not None
    assert shown.keys == 3


def test_a_key_that_holds_no_more_is_left_out(tmp_path: Path) -> None:
    followed = replace(LIVE, key=("bytes",), columns=("bytes", "app"), shares=(), needs=("app",)).follow(
        topology(tmp_path / "t")
    )
    pl.DataFrame({"app": ["dns", "web"], "bytes": [1, 2]}).write_delta(tmp_path / "t")
    pl.DataFrame({"app": [None], "bytes": [1]}, schema_overrides={"app": pl.String}).write_delta(
        tmp_path / "t", mode="append"
    )
    shown = followed.look()
    assert shown is not None
    assert [row["app"] for row in shown.rows] == ["web"]


def test_a_compaction_changes_nothing(tmp_path: Path) -> None:
    sink, followed = ps.Delta(tmp_path / "t"), LIVE.follow(topology(tmp_path / "t"))
    for number in (1, 5, 3):
        pl.DataFrame({"app": ["dns"], "bytes": [number]}).write_delta(tmp_path / "t", mode="append")
    before = rows(followed.look())
    sink.compact()
    assert rows(followed.look()) == before == [("dns", 3, 1.0)]


def test_a_look_at_a_table_whose_log_was_cleaned_up(tmp_path: Path) -> None:
    for number in (1, 2, 5):
        frame = pl.DataFrame({"app": [f"app-{number}"], "bytes": [number]})
        frame.write_delta(tmp_path / "t", mode="append")
    from deltalake import DeltaTable

    DeltaTable(tmp_path / "t").create_checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    (tmp_path / "t" / "_delta_log" / f"{1:020}.json").unlink()
    shown = LIVE.follow(topology(tmp_path / "t")).look()
    assert rows(shown) == [("app-5", 5, 0.625), ("app-2", 2, 0.25)]


def test_a_sink_that_is_no_table_is_refused(tmp_path: Path) -> None:
    wrong = LiveTable(title="", sink="gen", key=(), columns=(), order_by="")
    with pytest.raises(BadArgument, match=r"'gen'.*writes to Delta"):
        wrong.follow(topology(tmp_path))
