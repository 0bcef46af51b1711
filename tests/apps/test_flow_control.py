"""Notices to controllers: the rules one by one, the truth for any order and cut, and captures as input."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from penstock.apps import flow_control
from penstock.apps.flow_control import truth
from penstock.apps.flow_control.as_of import AsOf
from penstock.apps.flow_control.events import CELLS, KPI, VOICE, Thresholds
from penstock.apps.flow_control.generated import MOVES, Network
from penstock.apps.flow_control.matcher import Matcher
from penstock.errors import BadArgument
from penstock.frames.types import empty
from penstock.net import synth
from penstock.testing import Epoch, ReferenceRun, run
from penstock.testing.operators import check_operator
from penstock.topology.schema import Schema

START = dt.datetime(2026, 3, 1)
FEW = Thresholds(t1=0.8, t2=1000)
SMALL = {"messages": 3_000, "seed": 4}
T2 = 400_000


def minute(number: float) -> dt.datetime:
    return START + dt.timedelta(minutes=number)


def frame(columns: dict[str, Any], rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    timed = [(minute(at), *rest) for at, *rest in rows]
    return pl.DataFrame(timed, schema=empty(Schema.of(columns)).schema, orient="row")


def told(
    sizes: list[tuple[float, int]], rates: list[tuple[float, float]]
) -> list[tuple[float, str, float, int]]:
    """Minute, action, rate and volume of the notices to one controller; the truth must say the same."""
    voice = frame(VOICE, [(at, 1, size, 7, 9) for at, size in sizes])
    kpis = frame(KPI, [(at, 3, rate) for at, rate in rates])
    located = voice.select("time", "bytes", bsc=pl.lit(3, pl.Int64))
    found = check_operator(lambda: Matcher(FEW), [{"in": located, "kpis": kpis}], processes=1)["out"]
    expected = truth.notices(voice, kpis, frame(CELLS, [(-9, 7, 9, 3)]), FEW)
    assert found.sort(found.columns).equals(expected.sort(found.columns))
    rows = found.sort("time").select("time", "action", "voice_rate", "volume_bytes").iter_rows()
    return [((time - START).total_seconds() / 60, *rest) for time, *rest in rows]


def test_a_controller_limits_when_both_thresholds_are_passed_and_is_released_when_messages_leave() -> None:
    assert told([(1, 600), (2, 600)], [(0, 0.9)]) == [(2, "limit", 0.9, 1200), (6, "release", 0.9, 600)]


def test_a_controller_is_released_when_calls_are_few_again() -> None:
    rates = [(0, 0.5), (2, 0.81), (3, 0.8)]
    assert told([(1, 1001)], rates) == [(2, "limit", 0.81, 1001), (3, "release", 0.8, 1001)]


@pytest.mark.parametrize(("size", "rate"), [(1000, 0.9), (1001, 0.8)])
def test_a_threshold_that_is_only_reached_is_not_passed(size: int, rate: float) -> None:
    assert told([(1, size)], [(0, rate)]) == []


def test_what_happens_at_one_moment_counts_together() -> None:
    # At minute 6 the first message leaves and another of the same size comes: nothing to tell.
    assert told([(1, 1001), (6, 1001)], [(0, 0.9)]) == [(1, "limit", 0.9, 1001), (11, "release", 0.9, 0)]
    assert told([(1, 1001)], [(1, 0.9), (1, 0.1), (2, 0.1)])[0] == (1, "limit", 0.9, 1001)


def test_a_message_belongs_to_the_controller_that_has_its_cell_at_its_time() -> None:
    voice = frame(VOICE, [(0, 1, 10, 7, 9), (2, 1, 20, 7, 9), (4, 1, 30, 7, 9), (5, 1, 40, 7, 8)])
    cells = frame(CELLS, [(4, 7, 9, 4), (1, 7, 9, 3), (4, 7, 9, 2)])
    locate = AsOf(("lac", "cell"), ("bsc",))
    epochs = [{"in": voice[:2], "changes": cells}, {"in": voice[2:]}]
    out = check_operator(lambda: locate, epochs, times=[minute(3)])
    assert out["out"].select("bytes", "bsc").rows() == [(20, 3), (30, 4)]
    assert out["unknown"]["bytes"].to_list() == [10, 40]


def test_a_change_of_the_map_that_comes_late_counts_from_then_on_and_a_late_message_is_told() -> None:
    voice = frame(VOICE, [(0, 1, 10, 7, 9), (4, 1, 20, 7, 9), (1, 1, 30, 7, 9)])
    cells = frame(CELLS, [(0, 7, 9, 3), (1, 7, 9, 4)])
    locate = AsOf(("lac", "cell"), ("bsc",))
    epochs = [{"in": voice[:1], "changes": cells[:1]}, {"in": voice[1:], "changes": cells[1:]}]
    out = check_operator(lambda: locate, epochs, times=[minute(3)], processes=1)
    assert out["out"].select("bytes", "bsc").rows() == [(10, 3), (20, 4)]
    assert out["late"]["bytes"].to_list() == [30]


@pytest.mark.long
def test_the_matcher_keeps_to_the_contract_of_operators() -> None:
    network = Network(messages=400, stations=3, cells=30, seed=2)
    voice = network.voice(0, 400).select("time", "bytes", bsc=pl.col("cell") % 3)
    kpis = network.kpis(0, network.reports)
    cuts = [dt.datetime(2026, 1, 1, 0, 30), dt.datetime(2026, 1, 1, 1, 10)]
    epochs = [
        {name: rows.filter(pl.col("time").is_between(a, b, closed="left")) for name, rows in
         (("in", voice), ("kpis", kpis))}
        for a, b in zip([dt.datetime(2025, 1, 1), *cuts], [*cuts, dt.datetime(2027, 1, 1)], strict=True)
    ]  # fmt: skip
    out = check_operator(lambda: Matcher(Thresholds(t2=T2)), epochs, times=[*cuts, None])
    assert out["out"].height > 4
    assert out["late"].height == 0


@pytest.fixture(scope="module")
def events() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    network = Network(**SMALL)
    return (
        network.voice(0, network.messages),
        network.kpis(0, network.reports),
        network.map(0, network.cells + MOVES),
    )


@pytest.fixture(scope="module")
def expected(events: tuple[pl.DataFrame, ...]) -> pl.DataFrame:
    found = truth.notices(*events, Thresholds(t2=T2))
    assert found.height > 20
    return found


def test_an_event_is_a_function_of_its_number(events: tuple[pl.DataFrame, ...]) -> None:
    network = Network(**SMALL)
    for make, rows in zip((network.voice, network.kpis, network.map), events, strict=True):
        assert make(50, 20).equals(rows[50:70])


@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [{}, {"rows_per_epoch": 9_000, "seed": 1}, {"epochs": [Epoch(2_000, splits=3), 7], "seed": 2}],
    ids=str,
)
def test_notices_are_the_truths_however_events_interleave_and_epochs_are_cut(
    way: dict[str, Any], expected: pl.DataFrame, tmp_path: Path
) -> None:
    found = run(flow_control.topology(**SMALL, rate=None, t2=T2, directory=tmp_path), **way)
    got = found["notices"]
    assert got.sort(got.columns).equals(expected.sort(got.columns))
    assert [found[name].height for name in ("unknown-cells", "late-messages", "late-reports")] == [0, 0, 0]
    newest = found["controllers"].group_by("bsc").agg(pl.all().last())
    assert newest["volume_bytes"].sum() == 0, "all messages have left the window"


def test_files_of_the_user_give_the_same_notices(
    events: tuple[pl.DataFrame, ...], expected: pl.DataFrame, tmp_path: Path
) -> None:
    voice, kpis, cells = (tmp_path / name for name in ("voice", "kpis", "cells"))
    for folder, rows in zip((voice, kpis, cells), events, strict=True):
        folder.mkdir()
        rows.write_ndjson(folder / "0001.jsonl")
    top = flow_control.topology(kpis, cells, voice, lateness="2s", t2=T2, directory=tmp_path / "out")
    got = run(top)["notices"]
    assert got.sort(got.columns).equals(expected.sort(got.columns))


def test_a_file_that_moves_a_cell_while_it_runs_counts_from_its_time_on(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("kpis", "cells", "voice")}
    columns = {"kpis": KPI, "cells": CELLS, "voice": VOICE}

    def arrive(number: int, **rows: list[tuple[Any, ...]]) -> None:
        for name, content in rows.items():
            folders[name].mkdir(exist_ok=True)
            frame(columns[name], content).write_ndjson(folders[name] / f"{number:04}.jsonl")

    top = flow_control.topology(*folders.values(), follow=True, t2=1000, directory=tmp_path / "out")
    running = ReferenceRun(top)
    arrive(
        1,
        kpis=[(0, 3, 0.9), (0, 4, 0.9), (3, 3, 0.9)],
        cells=[(0, 7, 9, 3)],
        voice=[(1, 1, 600, 7, 9), (3, 1, 0, 7, 9)],
    )
    running.drain()
    arrive(2, cells=[(4, 7, 9, 4)])
    running.drain()
    arrive(3, kpis=[(9, 3, 0.9)], voice=[(3.5, 1, 600, 7, 9), (5, 1, 1001, 7, 9), (9, 1, 0, 7, 9)])
    running.drain()
    found = running.result()
    assert found["unknown-cells"].height == 0
    notices = found["notices"].sort("time").select("time", "bsc", "action", "volume_bytes").rows()
    assert notices == [
        (minute(3.5), 3, "limit", 1200),
        (minute(5), 4, "limit", 1001),
        (minute(6), 3, "release", 600),
    ]


@pytest.mark.long
def test_messages_of_captured_traffic_count_for_the_cell_of_their_subscriber(tmp_path: Path) -> None:
    traffic = synth.Traffic(subscribers=40, cells=6, rate=800, duration="5s", tunnel="gtp", stay=None)
    made = synth.write(tmp_path / "a.pcap", traffic)
    places = made.sessions.select("imsi", area="first_area", cell="first_cell")
    flows = made.flows.filter(pl.col("label") == "TLS").join(places, on="imsi")
    volume = flows.select(pl.sum("src2dst_bytes") + pl.sum("dst2src_bytes")).item()
    start = traffic.start.replace(tzinfo=None) - dt.timedelta(hours=1)
    cells = places.select("area", "cell").unique().rows()
    rows = [(start, int(area), int(cell), 1) for area, cell in cells]
    for name, columns, content in (("cells", CELLS, rows), ("kpis", KPI, [(start, 1, 0.9)])):
        (tmp_path / name).mkdir()
        table = pl.DataFrame(content, schema=empty(Schema.of(columns)).schema, orient="row")
        table.write_ndjson(tmp_path / name / "0001.jsonl")
    top = flow_control.topology(
        tmp_path / "kpis", tmp_path / "cells", captures=tmp_path / "a.pcap", application="TLS",
        t2=volume - 1, directory=tmp_path / "out",
    )  # fmt: skip
    found = run(top)
    assert found["unknown-cells"].height == 0
    assert found["notices"].select("action", "volume_bytes").row(0) == ("limit", volume)


@pytest.mark.parametrize(
    "wrong", [{"t1": -1.0}, {"t2": -1}, {"window": "0s"}, {"messages": 0}, {"kpis": "k", "cells": "c"},
              {"kpis": "k", "cells": "c", "voice": "v", "captures": "p"}, {"captures": "p"}], ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadArgument) as refused:
        flow_control.topology(**wrong)
    assert refused.value.parameters["where"] == "flow-control"
