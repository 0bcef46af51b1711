"""Captures through Spark: the applications on real traffic, and one that is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock import testing
from penstock.apps import app_tracker, packet_counter
from penstock.net import synth
from tests.net.answers import DATA, MISSING
from tests.spark.killing import killed_and_continued

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)]
CAPTURES = ("wechat.pcap", "whatsapp_login_chat.pcap", "zoom.pcap", "dns.pcap", "quic-29.pcap")
SUMS = ("packets", "bytes", "flows")
APP = Path(__file__).with_name("killed_tracker.py")


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    folder = tmp_path / "captures"
    folder.mkdir()
    for number, name in enumerate(CAPTURES):
        shutil.copy(DATA / "dpi" / name, folder / name)
        os.utime(folder / name, (number, number))  # files are taken by their time
    return folder


@pytest.fixture
def mobile(tmp_path: Path) -> Path:
    traffic = synth.Traffic(subscribers=30, cells=4, rate=800, duration="3s", tunnel="gtp", stay="1s")
    synth.write(tmp_path / "mobile.pcap", traffic)
    return tmp_path / "mobile.pcap"


@pytest.mark.parametrize(
    ("app", "traffic", "options"),
    [
        (packet_counter, "captures", {}),
        (app_tracker, "captures", {}),
        (app_tracker, "mobile", {"gprs": True}),
    ],
    ids=["packet-counter", "app-tracker", "app-tracker-gprs"],
)
def test_an_application_gives_what_the_reference_engine_gives(
    app: Any,
    traffic: str,
    options: dict[str, bool],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    spark_run: Any,
    same_rows: Callable[[Any, Any], None],
) -> None:
    path = request.getfixturevalue(traffic)
    top = app.topology(path, directory=tmp_path / "out", bytes_per_epoch=400_000, **options)
    with spark_run.start(top) as handle:
        handle.wait()
        assert len(handle.history()) > 2, "several epochs, so that state is carried over"
    expected = testing.run(top)
    for node in top.graph:
        if node.spec.kind == "sink":
            table = pl.read_delta(node.spec.sink.path)  # type: ignore[attr-defined]
            assert _newest(table).height
            same_rows(_newest(table), _newest(expected[node.name]))


@pytest.mark.chaos
def test_a_tracker_killed_in_the_middle_ends_with_the_same_tables(captures: Path, tmp_path: Path) -> None:
    killed_and_continued(APP, captures, tmp_path)
    top = app_tracker.topology(captures, directory=tmp_path / "undisturbed", bytes_per_epoch=400_000)
    expected = testing.run(top)
    for table in ("flows", "shares"):
        sink = {"shares": "totals"}.get(table, table)
        got = _newest(pl.read_delta(str(tmp_path / "out" / table)))
        assert got.sort(got.columns).equals(_newest(expected[sink]).sort(got.columns))


def _newest(table: pl.DataFrame) -> pl.DataFrame:
    """The last totals of each key; flows are emitted once and stay as they are."""
    sums = [name for name in (*SUMS, "captured_bytes", "subscribers") if name in table.columns]
    places = ("area", "cell", "location") if "imsi" in table.columns and sums else ()
    keys = [name for name in table.columns if name not in (*sums, *places)]
    return table.group_by(keys).agg(pl.col(sums).max()) if sums else table
