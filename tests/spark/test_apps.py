"""The applications through Spark: what the reference engine gives, also when one is killed and goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock import testing
from penstock.apps import click_stream, flow_control, slow_paths, smart_pcc
from penstock.apps.smart_pcc import truth
from penstock.apps.smart_pcc.generated import Network
from tests.spark.killed_smart_pcc import SMALL
from tests.spark.killing import killed_and_continued

pytestmark = pytest.mark.spark
KILLED = Path(__file__).with_name("killed_smart_pcc.py")


def a_smart_pcc(out: Path) -> Any:
    return smart_pcc.topology(
        subscribers=200, rows=22_000, seed=3, rate=None, rows_per_epoch=9_000, directory=out
    )


def a_flow_control(out: Path) -> Any:
    return flow_control.topology(messages=2_500, seed=4, rate=None, t2=400_000, directory=out)


CASES = [(smart_pcc, a_smart_pcc, "signals"), (flow_control, a_flow_control, "notices")]


@pytest.mark.parametrize(("app", "make", "lines"), CASES, ids=["smart-pcc", "flow-control"])
def test_an_application_gives_what_the_reference_engine_gives(
    app: Any, make: Any, lines: str, tmp_path: Path, spark_run: Any, same_rows: Callable[[Any, Any], None]
) -> None:
    top = make(tmp_path / "out")
    with spark_run.start(top) as handle:
        handle.wait()
    expected = testing.run(top)
    assert expected[lines].height > 5
    same_rows(read_lines(tmp_path / "out" / lines, expected[lines].schema), expected[lines])
    live = replace(app.LIVE, top=1_000)
    shown = live.follow(top).look()
    assert shown is not None
    newest = expected[live.sink].unique(live.key, keep="last").select(live.columns)
    same_rows(pl.DataFrame(shown.rows).select(live.columns), newest)


def a_click_stream(folder: Path) -> Any:
    (folder / "logs").mkdir()
    for number in range(3):
        path = folder / "logs" / f"{number}.log"
        click_stream.Site(rate=100.0).write_log(path, number * 3_000, 3_000)
        os.utime(path, (number, number))  # files are taken by their time
    options: dict[str, Any] = {"window": "20s", "slide": "10s", "lateness": "5s", "directory": folder / "out"}
    return click_stream.topology(folder / "logs", bytes_per_epoch=path.stat().st_size, **options)


def a_slow_paths(folder: Path) -> Any:
    return slow_paths.topology(
        servers=6, seconds=40, speed=None, rows_per_epoch=500, directory=folder / "out"
    )


@pytest.mark.parametrize(
    ("make", "rows", "totals", "key"),
    [
        (a_click_stream, "trends", "methods", ["method"]),
        (a_slow_paths, "slow-pings", "paths", ["source", "target"]),
    ],
    ids=["click-stream", "slow-paths"],
)
def test_tables_of_an_application_are_those_of_the_reference_engine(
    make: Any, rows: str, totals: str, key: list[str], tmp_path: Path, spark_run: Any,
    same_rows: Callable[[Any, Any], None],
) -> None:  # fmt: skip
    top = make(tmp_path)
    with spark_run.start(top) as handle:
        handle.wait()
        assert len(handle.history()) > 2, "several epochs, so that state is carried over"
    expected = testing.run(top)
    assert expected[rows].height > 5
    same_rows(pl.read_delta(str(tmp_path / "out" / rows)), expected[rows])
    count = expected[totals].columns[len(key)]  # it only grows: the greatest is the newest
    got = pl.read_delta(str(tmp_path / "out" / totals))
    same_rows(*(table.sort(count).unique(key, keep="last") for table in (got, expected[totals])))


@pytest.mark.chaos
def test_smart_pcc_killed_in_the_middle_sends_every_signal_once(tmp_path: Path) -> None:
    killed_and_continued(KILLED, tmp_path)
    network = Network(**SMALL)
    edrs, events = network.counts
    deserved = truth.signals(network.edrs(0, edrs), network.events(0, events), smart_pcc.Rules())
    sent = read_lines(tmp_path / "out" / "signals", deserved.schema)
    assert set(deserved["signal"]) == {"a", "b", "c"}
    assert sent.sort(sent.columns).equals(deserved.sort(sent.columns))


def read_lines(folder: Path, schema: Any) -> pl.DataFrame:
    """The rows of all files that a consumer of the folder would take."""
    moments = [name for name, kind in schema.items() if kind == pl.Datetime("us")]
    texts = {**schema, **dict.fromkeys(moments, pl.String)}
    rows = pl.read_ndjson(sorted(folder.glob("*.jsonl")), schema=texts)
    return rows.with_columns(pl.col(moments).str.to_datetime(time_unit="us"))
