"""The demo finds what its traffic holds."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from penstock import testing
from penstock.apps import demo
from penstock.net import synth

pytestmark = pytest.mark.long
SECONDS, RATE = 2, 3_000


@pytest.fixture(scope="module")
def results() -> dict[str, pl.DataFrame]:
    return testing.run(demo.topology(seconds=SECONDS, rate=RATE), rows_per_epoch=2_000)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> synth.Truth:
    capture = tmp_path_factory.mktemp("demo") / "all.pcap"
    return synth.write(capture, demo.traffic(seconds=SECONDS, rate=RATE))


def test_every_packet_of_the_traffic_is_in_the_totals(
    results: dict[str, pl.DataFrame], truth: synth.Truth
) -> None:
    totals = results["totals"].group_by("application").agg(pl.col("packets").max())
    assert totals["packets"].sum() == truth.packets
    assert totals.height >= 6, "several applications"


def test_subscribers_have_the_packets_that_were_theirs(
    results: dict[str, pl.DataFrame], truth: synth.Truth
) -> None:
    newest = results["subscriber-totals"].group_by("imsi", "application").agg(pl.col("packets").max())
    got = newest.drop_nulls("imsi").group_by("imsi").agg(pl.col("packets").sum())
    expected = truth.subscribers.filter(pl.col("packets") > 0)
    both = got.join(expected, on="imsi", how="full", suffix="_made")
    assert both.filter(pl.col("packets").ne_missing(pl.col("packets_made"))).height == 0


def test_the_last_line_says_how_to_look(tmp_path: Path) -> None:
    assert f"{tmp_path}/flows" in demo.look(tmp_path, "python")
