"""One bad timestamp costs one record with a reason: it moves no time, and what comes after it is in time."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.net import making as m

import penstock as ps
from penstock import net
from penstock.connect.source import EARLIEST, LATEST, Limit, bound_of
from penstock.connect.stdin import Stdin
from penstock.engine.punctuation import Punctuations, Standing
from penstock.errors import BadArgument
from penstock.testing import Epoch, ReferenceRun

TODAY = dt.datetime(2026, 1, 1, 12)
US = dt.timedelta(microseconds=1)
FAR = dt.datetime(2099, 1, 1)


def us(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // US


def raw_times(values: Sequence[int | None], **options: Any) -> ps.Generator:
    """Events with these times in µs, whatever they are."""
    frame = pl.DataFrame(
        {"time": values, "k": ["a"] * len(values)}, schema={"time": pl.Int64, "k": pl.String}
    )
    frame = frame.with_columns(pl.col("time").cast(pl.Datetime("us")))
    return ps.Generator(
        lambda first, count: frame[first : first + count],
        schema={"time": dt.datetime, "k": str}, rows=len(values), time="time", **options,
    )  # fmt: skip


def counted(source: Any, *, today: dt.datetime | None = TODAY) -> ReferenceRun:
    top = ps.Topology("t")
    windows = top.source("events", source).aggregate("n", window=ps.tumbling("10s"), n=ps.count())
    windows.sink("out", ps.Collect())
    windows.output("late").sink("late", ps.Collect())
    return ReferenceRun(top, today=today)


def total(run: ReferenceRun) -> tuple[int, int, int]:
    """Events in windows, late ones, and those put aside."""
    results = run.result()
    return int(results["out"]["n"].sum()), int(results["late"]["events"].sum()), run.letters().height


def lines(folder: Path, times: Sequence[dt.datetime], **options: Any) -> ps.Files:
    folder.mkdir()
    rows = [json.dumps({"time": time.isoformat(), "k": "a"}) for time in times]
    (folder / "a.jsonl").write_text("\n".join(rows) + "\n")
    columns = {"time": dt.datetime, "k": str}
    return ps.Files(folder, format="jsonl", schema=columns, time="time", ends="drained", **options)


def a_hundred(bad: dt.datetime) -> list[dt.datetime]:
    times = [TODAY - dt.timedelta(seconds=200 - n) for n in range(100)]
    times[40] = bad
    return times


def test_one_record_of_the_far_future_is_a_dead_letter_and_time_goes_on(tmp_path: Path) -> None:
    run = counted(lines(tmp_path / "in", a_hundred(FAR)))
    run.drain(Epoch(7))
    assert total(run) == (99, 0, 1)
    (letter,) = run.dead_letters
    assert json.loads(letter["raw"])["time"] == str(FAR)
    assert "2099-01-01 00:00:00 is too far ahead of the clock" in letter["reason"]
    assert "up to 2026-01-01 13:00:00" in letter["reason"]


def test_without_a_bound_the_future_is_believed(tmp_path: Path) -> None:
    run = counted(lines(tmp_path / "in", a_hundred(FAR), ahead=None))
    run.drain(Epoch(7))
    in_time, late, aside = total(run)
    assert (in_time + late, aside) == (100, 0)
    assert late > 50


def test_the_bound_counts_from_the_clock_to_the_microsecond() -> None:
    source = raw_times([us(TODAY) + n for n in (10**7, 10**7 + 1)], ahead="10s")
    run = counted(source)
    run.drain()
    assert total(run) == (1, 0, 1)


def test_old_data_is_never_ahead(tmp_path: Path) -> None:
    old = [dt.datetime(1985, 1, 1) + dt.timedelta(seconds=n) for n in range(20)]
    run = counted(lines(tmp_path / "in", old))
    run.drain(Epoch(7))
    assert total(run) == (20, 0, 0)


def test_generated_times_may_be_anything_by_default() -> None:
    run = counted(raw_times([us(FAR) + n for n in range(5)]))
    run.drain(Epoch(2))
    assert total(run) == (5, 0, 0)


def test_a_run_without_a_date_takes_all_of_them(tmp_path: Path) -> None:
    run = counted(lines(tmp_path / "in", [FAR]), today=None)
    run.drain()
    assert total(run) == (1, 0, 0)


limits = [-(2**63), -(2**63) + 1, -(2**62), EARLIEST - 1, EARLIEST, 0, LATEST, LATEST + 1,
          2**62, 2**63 - 1, us(TODAY), None]  # fmt: skip
any_times = st.lists(st.sampled_from(limits) | st.integers(-(2**63), 2**63 - 1), max_size=12)


@pytest.mark.long
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(any_times, st.integers(1, 12), st.sampled_from([None, "1h"]))
def test_no_time_whatsoever_raises_or_is_lost(times: list[int | None], rows: int, ahead: str | None) -> None:
    top = ps.Topology("t")
    source = raw_times(times, ahead=ahead)
    events = top.source("events", source)
    streams = [
        events.aggregate("tumbling", window=ps.tumbling("10s"), n=ps.count()),
        events.aggregate("counts", window=ps.count_window(1), n=ps.count()),
        events.restore_order("order"),
        events.top_k("best", 20, by="k"),
        events.dedupe("dedupe", "time", within="0s"),
        events.join("join", top.source("other", source), on="k", within="1s", how="left"),
    ]
    for stream in streams:
        stream.sink(f"{stream.node}-out", ps.Collect())
        stream.output("late").sink(f"{stream.node}-late", ps.Collect())
    run = ReferenceRun(top, today=TODAY)
    run.drain(Epoch(rows))
    bound = LATEST if ahead is None else bound_of(source, us(TODAY) * 1000)
    impossible = [t for t in times if t is not None and not EARLIEST <= t <= (bound or 0)]
    assert run.letters().height == 2 * len(impossible)
    results = run.result()
    for name in ("order", "dedupe", "best"):
        assert results[f"{name}-out"].height + results[f"{name}-late"].height == len(times) - len(impossible)
    whole = results["tumbling-out"]["n"].sum() + results["tumbling-late"]["events"].sum()
    assert whole == len(times) - len(impossible)


def test_an_event_far_in_the_past_does_no_harm() -> None:
    times: list[int | None] = [us(TODAY) + 10**6 * n for n in range(60)]
    times[50] = EARLIEST
    run = counted(raw_times(times))
    run.drain(Epoch(20))
    in_time, late, aside = total(run)
    assert (in_time + late, aside) == (60, 0)
    assert late == 1


def test_the_bound_is_part_of_the_offset() -> None:
    source = raw_times([1], ahead="1h")
    planner = source.planner(Path())
    end = planner.latest(planner.initial(), Limit())
    at = Standing.of(planner, planner.initial(), end, None, bound_of(source, 5_000_000_000_000))
    top = ps.Topology("t")
    top.source("events", source).sink("out", ps.Collect())
    program = ReferenceRun(top).program
    after = Punctuations().after(program, {"events": at}, 0)
    assert after.bounds == {"events": 5_000_000_000 + 3_600_000_000}
    assert Punctuations.from_json(json.loads(json.dumps(after.to_json()))) == after
    assert Punctuations.from_json({"sources": {}, "nodes": {}, "quiet_since": {}}).bounds == {}


def test_versions_stored_before_the_bound_are_read() -> None:
    for source, default in ((raw_times([1]), None), (ps.Files("x", format="text"), 3_600_000_000)):
        older = type(source).__new__(type(source))
        older.__setstate__(source.__getstate__()[:-1])  # type: ignore[attr-defined]
        assert older == source
        assert older.ahead_us == default
    assert Stdin(format="text", ahead="5m").ahead_us == 300_000_000


def test_a_strange_bound_is_refused() -> None:
    for make in (
        lambda: ps.Files("x", format="text", ahead="soon"),
        lambda: net.Pcap("x", ahead="soon"),
        lambda: raw_times([], ahead="soon"),
    ):
        with pytest.raises(BadArgument) as error:
            make()
        assert error.value.parameters["what"] == "ahead"


def capture(folder: Path, seconds: Sequence[int]) -> Path:
    """Packets of one conversation at these times."""
    folder.mkdir()
    frame = m.ethernet(m.ipv4(m.udp(b"hello")))
    packets = [m.pcap([frame], start_s=second)[24:] for second in seconds]
    (folder / "a.pcap").write_bytes(b"".join([m.pcap([]), *packets]))
    return folder


BASE = us(dt.datetime(2025, 6, 1)) // 10**6
IN_2103 = us(dt.datetime(2103, 1, 1)) // 10**6


def test_a_packet_of_the_far_future_stays_with_a_reason_and_cuts_no_flow(tmp_path: Path) -> None:
    seconds = [BASE, BASE + 1, IN_2103, BASE + 2, BASE + 3, *range(BASE + 500, BASE + 540)]
    source = net.Pcap(capture(tmp_path / "in", seconds), ends="drained")
    top = ps.Topology("t")
    packets = top.source("packets", source)
    packets.filter("is-odd", pl.col("reason") > 0).sink("odd", ps.Collect())
    ways = packets.flat_map("ways", net.flow_key).key_by(*net.FLOW_KEY)
    ways.process("flows", net.Flows(idle="60s")).sink("out", ps.Collect())
    run = ReferenceRun(top, today=TODAY)
    run.drain(Epoch(10))
    odd = run.result()["odd"]
    assert odd["time"].to_list() == [None]
    assert [net.REASONS[reason] for reason in odd["reason"]] == ["impossible time"]
    flows = run.result()["out"]
    assert sum(flows[way].sum() for way in ("src2dst_packets", "dst2src_packets")) == len(seconds) - 1
    assert flows.height == 2


def test_a_packet_far_in_the_past_counts_for_its_flow_and_does_not_cut_it(tmp_path: Path) -> None:
    source = net.Pcap(capture(tmp_path / "in", [BASE, BASE + 1, 0, BASE + 2, BASE + 3]), ends="drained")
    top = ps.Topology("t")
    ways = top.source("packets", source).flat_map("ways", net.flow_key).key_by(*net.FLOW_KEY)
    ways.process("flows", net.Flows(idle="60s")).sink("out", ps.Collect())
    run = ReferenceRun(top, today=TODAY)
    run.drain(Epoch(2))
    flows = run.result()["out"]
    assert flows["src2dst_packets"].to_list() == [5]
    assert us(flows["first_time"][0]) // 10**6 == BASE


def test_an_idle_flow_ends_although_a_packet_of_the_far_future_was_seen(tmp_path: Path) -> None:
    seconds = [BASE, IN_2103, *range(BASE + 500, BASE + 540)]
    planner = net.Pcap(capture(tmp_path / "in", seconds)).planner(tmp_path / "state")
    end = planner.latest(planner.initial(), Limit(rows=10))
    assert planner.punctuation(end, None) == (BASE + 507) * 10**6 - 10**6


def test_stretches_that_are_all_of_the_future_are_counted_without_a_time(tmp_path: Path) -> None:
    source = net.Pcap(capture(tmp_path / "in", [IN_2103, IN_2103 + 1]), rows="counts", ends="drained")
    top = ps.Topology("t")
    top.source("packets", source).sink("out", ps.Collect())
    run = ReferenceRun(top, today=TODAY)
    run.drain()
    rows = run.result()["out"]
    assert rows.select("time", "packets").rows() == [(None, 2)]
    assert [net.REASONS[reason] for reason in rows["reason"]] == ["impossible time"]
