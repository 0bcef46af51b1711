"""Slow paths: verdicts are those of the truth, and a busy server is never blamed on the network."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.net.answers import DATA, MISSING

from penstock.apps import slow_paths
from penstock.apps.slow_paths import Servers, truth
from penstock.apps.slow_paths.generated import READINGS_PER_S
from penstock.errors import BadArgument
from penstock.testing import run

SERVERS = Servers(6)
SECONDS = 90
RULE = {"slow_ms": 1000.0, "busy_load": 0.8, "within": dt.timedelta(seconds=1)}


def _generated(servers: Servers) -> tuple[pl.DataFrame, pl.DataFrame]:
    readings = servers.count * READINGS_PER_S * SECONDS
    return servers.pings(0, servers.pings_per_s * SECONDS), servers.loads(0, readings)


def _expected(pings: pl.DataFrame, loads: pl.DataFrame) -> list[Any]:
    found = truth.verdicts(pings.iter_rows(named=True), list(loads.iter_rows(named=True)), **RULE)  # type: ignore[arg-type]
    return sorted(found, key=lambda row: row[:3])


@pytest.mark.long
@pytest.mark.parametrize("cuts", [{}, {"rows_per_epoch": 211, "seed": 2}])
def test_verdicts_are_those_of_the_truth_however_epochs_are_cut(cuts: dict[str, Any]) -> None:
    expected = _expected(*_generated(SERVERS))
    results = run(slow_paths.topology(servers=6, seconds=SECONDS, speed=None), **cuts)
    assert results["slow-pings"].sort("time", "source", "target").rows() == expected
    assert {row[-1] for row in expected} == {"network", "busy"}
    totals = results["paths"].sort("slow").unique(["source", "target"], keep="last")
    assert totals["slow"].sum() == len(expected)
    assert totals["network"].sum() == sum(row[-1] == "network" for row in expected)


def test_a_busy_server_is_not_blamed_on_the_network_and_a_failed_path_is() -> None:
    slow = run(slow_paths.topology(servers=6, seconds=SECONDS, speed=None))["slow-pings"]
    start = SERVERS.pings(0, 1)["time"][0]
    second = (slow["time"] - start).dt.total_seconds().to_numpy()
    source, target = (slow[name].str.slice(7).cast(pl.Int64).to_numpy() for name in ("source", "target"))
    is_busy = pl.Series(SERVERS.is_busy(target, second))
    has_failed = pl.Series(SERVERS.has_failed(source, target, second))
    assert (is_busy | has_failed).all()
    assert set(slow.filter(is_busy)["cause"]) == {"busy"}
    nobody_near = pl.Series(
        ~(SERVERS.is_busy(target, second - 2) | SERVERS.is_busy(target, second + 2)) & ~is_busy.to_numpy()
    )
    assert set(slow.filter(has_failed & nobody_near)["cause"]) == {"network"}


def test_pings_and_loads_come_from_files_and_what_nobody_read_is_unknown(tmp_path: Path) -> None:
    at = dt.datetime(2026, 1, 5, 9)
    second = dt.timedelta(seconds=1)
    pings = pl.DataFrame(
        {
            "time": [at, at + 2 * second, at + 4 * second, at + 5 * second],
            "source": ["A"] * 4,
            "target": ["C", "B", "C", "C"],
            "rtt_ms": [1500.0, None, 1200.0, 40.0],
        }
    )
    loads = pl.DataFrame({"time": [at + second, at + 3 * second], "server": ["C", "C"], "load": [0.95, 0.1]})
    pings.write_csv(tmp_path / "pings.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    loads.write_csv(tmp_path / "loads.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    top = slow_paths.topology(tmp_path / "pings.csv", tmp_path / "loads.csv")
    got = run(top)["slow-pings"].sort("time").select("target", "load", "cause").rows()
    assert got == [("C", 0.95, "busy"), ("B", None, "unknown"), ("C", 0.1, "network")]


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
def test_usual_round_trips_may_be_those_that_were_measured() -> None:
    matrix = DATA / "latency/PlanetLabData_1.gz"
    servers = Servers(20, str(matrix))
    pings, loads = _generated(servers)
    usual = pings.filter((pl.col("source") == "server-000") & (pl.col("target") == "server-001"))
    assert usual["rtt_ms"].min() == pytest.approx(0.175, rel=0.11)
    results = run(slow_paths.topology(servers=20, seconds=SECONDS, speed=None, latencies=matrix))
    assert results["slow-pings"].sort("time", "source", "target").rows() == _expected(pings, loads)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"pings": "here"}, "the input"),
        ({"servers": 1}, "the made-up servers"),
        ({"speed": 0.0}, "the made-up servers"),
        ({"latencies": Path("nowhere.gz")}, "latencies"),
        ({"within": "soon"}, "within"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(BadArgument) as caught:
        slow_paths.topology(**options)
    assert caught.value.parameters["what"] == what
