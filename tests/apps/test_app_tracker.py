"""The application tracker against traffic whose truth is known, and against real frames of Gb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.net import gprs_making as g
from tests.net import making as m
from tests.net.answers import DATA, MISSING

from penstock import testing
from penstock.apps import app_tracker
from penstock.errors import BadArgument
from penstock.net import synth

pytestmark = pytest.mark.long
SUMS = ["packets", "bytes", "flows"]
ENDS = ["src_ip_high", "src_ip_low", "src_port", "dst_ip_high", "dst_ip_low", "dst_port", "protocol"]
START = {"subscribers": 40, "cells": 8, "rate": 1000, "duration": "2s", "seed": 5}


def tracked(path: Path, epoch_bytes: int = 500_000, **options: Any) -> dict[str, pl.DataFrame]:
    # More slices than six cost more than they teach here.
    top = app_tracker.topology(
        path, directory=path.parent / "out", bytes_per_epoch=epoch_bytes, parallelism=6, **options
    )
    return testing.run(top)


def newest(table: pl.DataFrame, *key: str) -> pl.DataFrame:
    return table.unique(key, keep="last", maintain_order=True).sort(key)


def by_protocol(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Totals by the first word of the application: what a host is for, an engine may see or not."""
    protocol = pl.col("application").str.split(".").list.first()
    return table.group_by(protocol).agg(pl.sum(*SUMS)).sort("application").rows()


def made(truth: synth.Truth) -> list[tuple[Any, ...]]:
    sums = {
        "packets": pl.sum("src2dst_packets") + pl.sum("dst2src_packets"),
        "bytes": pl.sum("src2dst_bytes") + pl.sum("dst2src_bytes"),
        "flows": pl.len().cast(pl.Int64),
    }
    return truth.flows.group_by("label").agg(**sums).sort("label").rows()


@pytest.fixture(scope="module")
def mobile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, synth.Truth]:
    path = tmp_path_factory.mktemp("mobile") / "a.pcap"
    return path, synth.write(path, synth.Traffic(tunnel="gtp", stay="1s", **START))


@pytest.fixture(scope="module")
def found(mobile: tuple[Path, synth.Truth]) -> dict[str, pl.DataFrame]:
    return tracked(mobile[0], gprs=True, engine="builtin")


def test_each_application_has_what_was_made_for_it(
    mobile: tuple[Path, synth.Truth], found: dict[str, pl.DataFrame]
) -> None:
    totals, truth = newest(found["totals"], "application"), mobile[1]
    users = totals.filter(pl.col("subscribers") > 0)
    assert by_protocol(users) == made(truth)
    assert totals.select(pl.sum("packets", "bytes")).row(0) == (truth.packets, truth.bytes)


def test_each_subscriber_has_what_was_made_for_it(
    mobile: tuple[Path, synth.Truth], found: dict[str, pl.DataFrame]
) -> None:
    table, truth = newest(found["subscriber-totals"], "imsi", "application"), mobile[1]
    owned = table.drop_nulls("imsi")
    sums = owned.group_by("imsi", "msisdn").agg(pl.sum(*SUMS)).sort("imsi")
    sessions = truth.sessions.select("imsi", "msisdn")
    expected = truth.subscribers.join(sessions, on="imsi").select(sums.columns).sort("imsi")
    assert sums.equals(expected)
    assert owned["cell"].null_count() == 0
    counted = newest(found["totals"], "application").filter(pl.col("subscribers") > 0)
    subscribers = owned.group_by("application").agg(pl.n_unique("imsi")).sort("application")
    assert counted.select("application", "subscribers").rows() == subscribers.rows()


def test_each_flow_has_its_subscriber(
    mobile: tuple[Path, synth.Truth], found: dict[str, pl.DataFrame]
) -> None:
    owned = found["flows"].drop_nulls("imsi").select(*ENDS, "first_time", "imsi").sort(*ENDS, "first_time")
    expected = mobile[1].flows.select(owned.columns).sort(*ENDS, "first_time")
    assert owned.equals(expected.cast(dict(owned.schema)))


@pytest.mark.parametrize("epoch_bytes", [300_000, 1 << 30])
def test_the_tables_do_not_depend_on_how_epochs_are_cut(
    mobile: tuple[Path, synth.Truth], found: dict[str, pl.DataFrame], epoch_bytes: int
) -> None:
    other = tracked(mobile[0], epoch_bytes, gprs=True, engine="builtin")
    for table, key in (
        ("flows", [*ENDS, "first_time"]),
        ("totals", ["application"]),
        ("subscriber-totals", ["imsi", "application"]),
    ):
        assert newest(other[table], *key).equals(newest(found[table], *key)), table


def test_loss_and_disorder_leave_each_packet_with_its_subscriber_and_place(tmp_path: Path) -> None:
    traffic = synth.Traffic(tunnel="gtp", stay=None, loss=0.02, disorder=0.05, retransmission=0.02, **START)
    truth = synth.write(tmp_path / "a.pcap", traffic)
    tables = tracked(tmp_path / "a.pcap", gprs=True, engine="builtin")
    table = newest(tables["subscriber-totals"], "imsi", "application").drop_nulls("imsi")
    sums = table.group_by("imsi").agg(pl.sum(*SUMS)).sort("imsi")
    assert sums.equals(truth.subscribers.select(sums.columns))
    places = table.select("imsi", "area", "cell").unique().sort("imsi")
    cells = truth.sessions.select("imsi", area="first_area", cell="first_cell").sort("imsi")
    assert places.rows() == cells.filter(pl.col("imsi").is_in(places["imsi"].to_list())).rows()


def test_fragments_are_joined_before_they_are_looked_into(tmp_path: Path) -> None:
    tables = {}
    for name, ratio in (("whole", 0.0), ("cut", 0.2)):
        traffic = synth.Traffic(tunnel="gtp", stay=None, fragments=ratio, **START)
        (tmp_path / name).mkdir()
        synth.write(tmp_path / name / "a.pcap", traffic)
        options = {"gprs": True, "defragment": ratio > 0, "engine": "builtin"}
        tables[name] = tracked(tmp_path / name / "a.pcap", **options)
    packets = [
        newest(table["subscriber-totals"], "imsi", "application")
        .group_by("imsi").agg(pl.sum("packets", "flows")).sort("imsi").rows()
        for table in tables.values()
    ]  # fmt: skip
    assert packets[0] == packets[1]


def test_segments_on_gb_are_joined_before_they_are_looked_into(tmp_path: Path) -> None:
    """The name of the host is in the second segment of a request."""
    request = m.ipv4(m.tcp(b"GET /" + b"x" * 400 + b" HTTP/1.1\r\nHost: www.example.org\r\n\r\n"), protocol=6)
    parts = [g.gb_segment(request, segment, 300) for segment in range(2)]
    (tmp_path / "a.pcap").write_bytes(m.pcap(parts))
    tables = tracked(tmp_path / "a.pcap", gprs=True, defragment=True, engine="builtin")
    (flow,) = tables["flows"].select("host", "src2dst_packets", "src2dst_bytes", "area", "cell").rows()
    assert flow == ("www.example.org", 1, len(request), 0x4050, 0x1234)


def test_plain_traffic_has_applications_and_no_subscribers(tmp_path: Path) -> None:
    truth = synth.write(tmp_path / "a.pcap", synth.Traffic(**START))
    tables = tracked(tmp_path / "a.pcap", engine="builtin")
    totals = newest(tables["totals"], "application")
    assert by_protocol(totals) == made(truth)
    assert totals["subscribers"].null_count() == totals.height
    assert tables["flows"].height == truth.flows.height


def test_it_says_which_engine_is_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app_tracker.topology(tmp_path, engine="builtin")
    assert capsys.readouterr().err == "app-tracker: applications are recognised by built-in\n"


def test_an_engine_that_is_not_there_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from penstock.net import dpi

    monkeypatch.setattr("penstock.net.dpi.abi.NFSTREAM", "0.0.0")
    dpi.engine.cache_clear()
    with pytest.raises(BadArgument, match="nfstream"):
        app_tracker.topology(tmp_path, engine="ndpi")
    app_tracker.topology(tmp_path)
    assert "recognised by built-in ([NDPI_UNUSABLE]" in capsys.readouterr().err
    dpi.engine.cache_clear()


@pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)
def test_name_service_on_a_real_gb_interface_has_a_subscriber_in_a_cell() -> None:
    path = DATA / "gtp" / "gb_gprs" / "openbsc" / "gbproxy_frames_wrapped.pcap"
    flows = tracked(path, gprs=True, engine="builtin")["flows"]
    named = flows.filter(pl.col("application").str.starts_with("DNS"))
    assert named.height
    assert named["cell"].null_count() == 0
