"""Signals to subscribers near their quota: the rules one by one, and the truth for any order and cut."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import penstock as ps
from penstock.apps import flow_control, smart_pcc
from penstock.apps.smart_pcc import truth
from penstock.apps.smart_pcc.generated import Network
from penstock.apps.smart_pcc.joiner import Joiner
from penstock.apps.smart_pcc.rules import EDR, STREAMING, Rules
from penstock.connect.json_lines import JsonLines
from penstock.errors import BadArgument
from penstock.frames.types import empty
from penstock.testing import Epoch, run
from penstock.testing.operators import check_operator
from penstock.testing.sinks import check_sink
from penstock.topology.schema import Schema

START = dt.datetime(2026, 3, 1)
RENEWS = dt.datetime(2026, 4, 1)
ANN, BOB = 49_170_1, 49_170_2
SMALL = {"subscribers": 300, "rows": 8_800, "seed": 5}


def minute(number: float) -> dt.datetime:
    return START + dt.timedelta(minutes=number)


def edr(at: float, used: int, who: int = ANN, *, limit: int = 1000, **more: Any) -> dict[str, Any]:
    row = {"plan": "basic", "renews": RENEWS, **more}
    return {"time": minute(at), "msisdn": who, "quota_limit": limit, "quota_used": used, **row}


def told(edrs: list[dict[str, Any]], events: list[tuple[float, int]]) -> list[tuple[float, str, int]]:
    """Minute, signal and msisdn of what a run on these gives; the truth must say the same."""
    records = pl.DataFrame(edrs, schema=empty(Schema.of(EDR)).schema)
    rows = [{"time": minute(at), "msisdn": who, "video": "v"} for at, who in events]
    streams = pl.DataFrame(rows, schema=empty(Schema.of(STREAMING)).schema)
    near = records.filter(Rules().is_near())
    inputs = {"in": streams.select("time", "msisdn"), "edrs": near}
    found = check_operator(lambda: Joiner(Rules()), [inputs], processes=1)["out"]
    expected = truth.signals(records, streams, Rules())
    assert found.sort(found.columns).equals(expected.sort(found.columns))
    rows = found.sort("time", "msisdn").iter_rows(named=True)
    return [((row["time"] - START).total_seconds() / 60, row["signal"], row["msisdn"]) for row in rows]


def test_a_subscriber_who_streams_near_the_end_of_the_quota_is_warned_once() -> None:
    edrs = [edr(0, 899, BOB), edr(0, 900), edr(2, 950)]
    assert told(edrs, [(1, ANN), (1, BOB), (2, ANN), (3, ANN)]) == [(1, "a", ANN)]


def test_free_quota_is_granted_when_the_quota_is_used_up_and_counts_from_then() -> None:
    edrs = [edr(0, 950), edr(2, 1040), edr(4, 1100), edr(6, 1140)]
    events = [(1, ANN), (3, ANN), (5, ANN), (7, ANN), (8, ANN)]
    # 1040 are used when b is sent, so that 100 more are free.
    assert told(edrs, events) == [(1, "a", ANN), (3, "b", ANN), (7, "c", ANN)]


def test_who_has_run_out_already_is_not_told_that_it_is_about_to_happen() -> None:
    assert told([edr(0, 1500)], [(1, ANN), (2, ANN)]) == [(1, "b", ANN)]


def test_an_edr_counts_for_the_window_and_from_its_own_moment_on() -> None:
    assert told([edr(1, 950)], [(0.9, ANN), (1, ANN)]) == [(1, "a", ANN)]
    assert told([edr(0, 950)], [(15, ANN)]) == [(15, "a", ANN)]
    assert told([edr(0, 950)], [(15.01, ANN)]) == []


@pytest.mark.parametrize("change", [{"limit": 2000}, {"renews": dt.datetime(2026, 5, 1)}])
def test_a_new_quota_has_signals_of_its_own(change: dict[str, Any]) -> None:
    edrs = [edr(0, 950), edr(2, 1900 if "limit" in change else 950, **change)]
    assert told(edrs, [(1, ANN), (3, ANN)]) == [(1, "a", ANN), (3, "a", ANN)]


def test_two_plans_that_report_in_turn_are_told_of_once_each() -> None:
    edrs = [edr(at, 950, plan=("basic", "video")[at % 2]) for at in range(6)]
    assert told(edrs, [(at + 0.5, ANN) for at in range(6)]) == [(0.5, "a", ANN), (1.5, "a", ANN)]


@pytest.mark.long
def test_the_joiner_keeps_to_the_contract_of_operators_and_forgets_what_is_past() -> None:
    network = Network(subscribers=40, rows=2_200, seed=2)
    edrs, events = (
        make(0, n) for make, n in zip((network.edrs, network.events), network.counts, strict=True)
    )
    near, streams = edrs.filter(Rules().is_near()), events.select("time", "msisdn")
    cuts = [dt.datetime(2026, 1, 1, 0, m) for m in (0, 10, 30, 50)]
    epochs = [
        {name: rows.filter(pl.col("time").is_between(a, b, closed="left")) for name, rows in
         (("in", streams), ("edrs", near))}
        for a, b in zip([dt.datetime(2025, 1, 1), *cuts], [*cuts, dt.datetime(2027, 1, 1)], strict=True)
    ]  # fmt: skip
    out = check_operator(lambda: Joiner(Rules()), epochs, times=[*cuts, None])
    expected = truth.signals(edrs, events, Rules())
    assert out["out"].sort(pl.all()).equals(expected.sort(pl.all()))
    assert out["late"].height == 0
    joiner = Joiner(Rules())
    state = joiner.init_state()
    nowhere: Any = _Nowhere()
    for name, rows in (("edrs", near), ("in", streams)):
        joiner.process_input(name, rows, state, nowhere)
    joiner.on_punctuation(dt.datetime(2027, 1, 1), state, nowhere)
    assert {name: len(part) for name, part in state.items() if name != "plans"} == dict.fromkeys(
        ("events", "edrs", "standings", "quotas"), 0
    )


class _Nowhere:
    def __call__(self, rows: pl.DataFrame) -> None: ...

    def to(self, output: str, rows: pl.DataFrame) -> None: ...

    def reject(self, rows: pl.DataFrame, reasons: pl.Series) -> None: ...


def test_what_comes_behind_the_punctuation_goes_to_the_output_late() -> None:
    event = pl.DataFrame({"time": [minute(1)], "msisdn": [ANN]})
    epochs = [{"in": event}, {"in": event, "edrs": pl.DataFrame([edr(1, 950)])}]
    out = check_operator(lambda: Joiner(Rules()), epochs, times=[minute(2)], processes=1)
    assert out["late"].rows() == [(minute(1), ANN), (minute(1), ANN)]
    assert out["out"].height == 0


@pytest.fixture(scope="module")
def expected() -> pl.DataFrame:
    network = Network(**SMALL)
    edrs, events = (
        make(0, n) for make, n in zip((network.edrs, network.events), network.counts, strict=True)
    )
    found = truth.signals(edrs, events, Rules())
    assert set(found["signal"]) == {"a", "b", "c"}
    return found


def test_an_event_is_a_function_of_its_number() -> None:
    network = Network(**SMALL)
    assert network.edrs(50, 20).equals(network.edrs(0, 100)[50:70])
    assert network.events(50, 20).equals(network.events(0, 100)[50:70])
    assert not network.edrs(0, 100).equals(Network(**{**SMALL, "seed": 6}).edrs(0, 100))


@pytest.mark.long
@pytest.mark.parametrize(
    "way",
    [{}, {"rows_per_epoch": 700}, {"rows_per_epoch": 900, "seed": 1},
     {"epochs": [Epoch(2_000, splits=3), 5, 1_000], "rows_per_epoch": 2_000, "seed": 2}],
    ids=str,
)  # fmt: skip
def test_signals_are_the_truths_however_events_interleave_and_epochs_are_cut(
    way: dict[str, Any], expected: pl.DataFrame, tmp_path: Path
) -> None:
    found = run(smart_pcc.topology(**SMALL, rate=None, directory=tmp_path), **way)
    got = found["signals"]
    assert got.sort(got.columns).equals(expected.sort(got.columns))
    assert found["late"].height == 0
    newest = found["per-plan"].group_by("plan").agg(pl.all().last())
    assert newest.select("a", "b", "c").sum().row(0) == tuple(
        (expected["signal"] == signal).sum() for signal in "abc"
    )


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_files_of_the_user_give_the_same_signals(format: str, expected: pl.DataFrame, tmp_path: Path) -> None:
    network = Network(**SMALL)
    folders = [tmp_path / "edr", tmp_path / "events"]
    for folder, make, count in zip(folders, (network.edrs, network.events), network.counts, strict=True):
        folder.mkdir()
        write = {"jsonl": "write_ndjson", "csv": "write_csv", "parquet": "write_parquet"}[format]
        getattr(make(0, count), write)(folder / f"0001.{format}")
    top = smart_pcc.topology(*folders, format=format, lateness="2s", directory=tmp_path / "out")  # type: ignore[arg-type]
    got = run(top)["signals"]
    assert got.sort(got.columns).equals(expected.sort(got.columns))


@pytest.mark.parametrize(
    "wrong", [{"near": 0.0}, {"near": 1.2}, {"free": -1.0}, {"window": "soon"}, {"window": "0s"},
              {"rows": 0}, {"edrs": "folder"}, {"events": "folder"}], ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadArgument) as refused:
        smart_pcc.topology(**wrong)
    assert refused.value.parameters["where"] == "smart-pcc"


def read_lines(sink: Any, folder: Path) -> pl.DataFrame:
    lines = [
        line for file in sorted(Path(sink.path).glob("*.jsonl")) for line in file.read_text().splitlines()
    ]
    return pl.DataFrame([json.loads(line) for line in lines])


def test_json_lines_keep_to_the_contract_of_sinks(tmp_path: Path) -> None:
    check_sink(lambda folder: JsonLines(folder / "out"), read_lines, tmp_path)


def test_a_file_that_the_consumer_took_away_is_not_written_again(tmp_path: Path) -> None:
    from penstock.testing.sinks import Harness, rows

    harness = Harness(JsonLines(tmp_path / "out"), read_lines, tmp_path)
    messages = harness.epoch(0, [rows(0, 2)])
    for file in (tmp_path / "out").glob("*.jsonl"):
        file.unlink()
    harness.sink.commit(harness.context(0), messages)
    harness.epoch(0, [rows(0, 2)], attempt="1")
    assert harness.seen() == []


def test_a_folder_of_json_lines_can_be_read_as_a_source(tmp_path: Path) -> None:
    from penstock.testing.sinks import SCHEMA, Harness, rows

    harness = Harness(JsonLines(tmp_path / "out"), read_lines, tmp_path)
    harness.epoch(0, [rows(0, 2)], [rows(2, 1)])
    top = ps.Topology("reader")
    source = ps.Files(tmp_path / "out", format="jsonl", schema=SCHEMA, ends="drained")
    top.source("lines", source).sink("seen", ps.Collect())
    assert run(top)["seen"]["count"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(("app", "told"), [(smart_pcc, "signals"), (flow_control, "notices")])
def test_a_component_that_is_named_gets_what_the_files_get(app: Any, told: str) -> None:
    nodes = {node.name: node for node in app.topology(notify="https://host/in").graph}
    assert nodes["notify"].spec.sink == ps.Http("https://host/in")
    assert nodes["notify"].inputs == nodes[told].inputs
    assert "notify" not in {node.name for node in app.topology().graph}
