"""Other people's files, with figures that they published."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from penstock.connect.csv_options import Csv
from penstock.connect.files import Files
from penstock.connect.source import BadRecord, Limit
from penstock.testing.sources import read_range

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of real data is not here")


def _read(source: Files, state: Path) -> tuple[pl.DataFrame, list[BadRecord]]:
    planner = source.planner(state)
    start = planner.initial()
    return read_range(source, planner, start, planner.latest(start, Limit()), 4)


def test_apache_log_has_ten_thousand_lines(tmp_path: Path) -> None:
    rows, bad = _read(Files(DATA / "weblogs" / "elastic" / "apache_logs", format="text"), tmp_path)
    assert (rows.height, bad) == (10_000, [])


def test_metric_series_are_read_with_their_times(tmp_path: Path) -> None:
    pattern = DATA / "timeseries" / "nab" / "data" / "*" / "*.csv"
    source = Files(pattern, format="csv", schema={"timestamp": "timestamp", "value": float}, time="timestamp")
    rows, bad = _read(source, tmp_path)
    lines = sum(file.read_bytes().count(b"\n") for file in pattern.parent.parent.glob("*/*.csv"))
    files = len(list(pattern.parent.parent.glob("*/*.csv")))
    unended = sum(not file.read_bytes().endswith(b"\n") for file in pattern.parent.parent.glob("*/*.csv"))
    assert (rows.height, bad) == (lines - files + unended, [])
    assert rows["timestamp"].null_count() == 0


def test_nasa_log_of_one_day_has_30969_requests(tmp_path: Path) -> None:
    path = DATA / "weblogs" / "nasa" / "nasa_19950801.tsv"
    names = path.open().readline().rstrip("\n").split("\t")
    source = Files(path, format="csv", schema=dict.fromkeys(names, str), csv=Csv(separator="\t"))
    rows, bad = _read(source, tmp_path)
    assert (rows.height, bad) == (30_969, [])
