"""A source under an old name: it continues at its offset, starts anew, or the user must decide."""

from __future__ import annotations

import dataclasses
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

import penstock as ps
from penstock import net
from penstock.connect.source import END_OF_TIME, Batch, Reject, Source, SourcePlanner, Split
from penstock.control.changes import ChangePlan, plan_change, require_applicable
from penstock.control.changing import change_version
from penstock.control.run_directory import RunDirectory
from penstock.errors import BadArgument, SourceUndecided
from penstock.net import synth
from penstock.plan import plan
from penstock.plan.program import Program
from penstock.spark.intake import IntakeReader
from penstock.testing import ReferenceRun
from penstock.testing.engine import Epoch

NUMBERS = {"n": int}
EVENTS = {"time": datetime, "n": int}


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + count)}, schema={"n": pl.Int64})


def others(first: int, count: int) -> pl.DataFrame:
    return numbers(first, count).select(pl.col("n") * -1)


def generated(**options: Any) -> ps.Generator:
    return ps.Generator(numbers, **{"schema": NUMBERS, "rows": 10, **options})


def files(path: object, **options: Any) -> ps.Files:
    return ps.Files(str(path), **{"format": "jsonl", "schema": NUMBERS, "ends": "drained", **options})


def reading(source: Source | None, *, also: Source | None = None) -> ps.Topology:
    top = ps.Topology("numbers")
    streams = [top.source(name, s) for name, s in (("input", source), ("other", also)) if s is not None]
    stream = streams[0] if len(streams) == 1 else streams[0].union("both", streams[1])
    stream.sink("out", ps.Collect())
    return top


def change(before: Source, after: Source, *, version: int = 2, **decisions: Any) -> ChangePlan:
    return plan_change(plan(reading(before)), plan(reading(after)), version=version, sources=decisions)


@dataclass(frozen=True)
class Mine(Source):
    """A user's own source, with one field that says where it reads and one that does not matter."""

    place: str = "here"
    patience: int = field(default=1, metadata={"identity": False})

    @property
    def schema(self) -> ps.Schema:
        return ps.Schema.of(NUMBERS)

    @property
    def time(self) -> str | None:
        return None

    def planner(self, state_dir: Path) -> SourcePlanner:
        return generated().planner(state_dir)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        return generated().read(split, reject)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (files("a/*.csv"), files("a/*.csv", time="n", lateness="5s", ends="never", missing="dead-letter")),
        (files("a", schema={"n": int}), files("a", format="text", schema=None)),
        (generated(), generated(rows=20, rate=5.0)),
        (generated(), ps.Generator(others, schema=NUMBERS, rows=10)),
        (ps.Stdin(format="text"), ps.Stdin(format="jsonl", schema=NUMBERS)),
        (net.Pcap("a/*.pcap"), net.Pcap("a/*.pcap", columns=["time", "length"], lateness="9s")),
        (net.Interface("lo"), net.Interface("lo", snap_bytes=64)),
        (synth.Source(synth.Traffic(seed=1)), synth.Source(synth.Traffic(seed=1), rate=10.0)),
        (Mine(patience=1), Mine(patience=2)),
    ],
)  # fmt: skip
def test_parameters_do_not_change_what_an_offset_means(before: Source, after: Source) -> None:
    assert before.identity == after.identity
    assert pickle.loads(pickle.dumps(before.identity)) == after.identity


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (files("a/*.csv"), files("b/*.csv")),
        (files("a"), files("a", compression="gzip")),
        (generated(), generated(start=5)),
        (net.Pcap("a/*.pcap"), net.Pcap("b/*.pcap")),
        (net.Interface("lo"), net.Interface("eth0")),
        (synth.Source(synth.Traffic(seed=1)), synth.Source(synth.Traffic(seed=2))),
        (Mine("here"), Mine("there")),
    ],
)
def test_a_source_that_reads_another_place_must_be_decided_about(before: Source, after: Source) -> None:
    found = change(before, after)
    assert [name for name, _ in found.sources.undecided] == ["input"]
    with pytest.raises(SourceUndecided) as caught:
        require_applicable(found, allow_state_loss=True)
    assert caught.value.condition == "SOURCE_UNDECIDED"
    assert caught.value.parameters["source"] == "input"
    for text in ("--source input=continue", "--source input=anew", '{"input": "anew"}'):
        assert text in caught.value.parameters["choices"]
    assert "? input:" in str(found)
    for decision in ("continue", "anew"):
        require_applicable(change(before, after, input=decision), allow_state_loss=False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (files("a"), generated()),
        (files("a", format="parquet", schema=NUMBERS), files("a")),
        (files("a"), net.Pcap("a")),
        (generated(), Mine()),
    ],
)
@pytest.mark.parametrize("decision", [{}, {"input": "continue"}])
def test_a_source_whose_offsets_are_of_another_kind_can_only_start_anew(
    before: Source, after: Source, decision: dict[str, Any]
) -> None:
    found = change(before, after, **decision)
    with pytest.raises(SourceUndecided) as caught:
        require_applicable(found, allow_state_loss=True)
    assert caught.value.parameters["allowed"] == "anew"
    assert "continue" not in caught.value.parameters["choices"]
    require_applicable(change(before, after, input="anew"), allow_state_loss=False)


def test_the_plan_says_what_becomes_of_each_source() -> None:
    here = str(Path("a").absolute())
    assert str(change(files("a"), files("a", lateness="1s"))).splitlines()[1:] == [
        "  ~ input: logic or parameters",
        "  > input: continues at its offset (it reads the same as before)",
    ]
    moved = f"it read {here} and reads {here[:-1]}b now"
    assert str(change(files("a"), files("b"))).splitlines()[-1] == (
        f"  ? input: {moved}; continue at the old offset, or start anew?"
    )
    assert str(change(files("a"), files("b"), input="anew")).splitlines()[-1] == (
        f"  > input: starts anew ({moved})"
    )


def test_a_source_that_is_asked_to_start_anew_does_although_nothing_else_changes() -> None:
    found = change(files("a"), files("a"), input="anew")
    assert found
    assert found.program.source_key("input") == "input@2"
    assert not change(files("a"), files("a"), input="continue")


def test_a_generation_stays_until_the_source_starts_anew_again() -> None:
    second = change(files("a"), files("b"), input="anew").program
    third = plan_change(second, plan(reading(files("b", lateness="1s"))), version=3).program
    fourth = plan_change(third, plan(reading(files("c"))), version=4, sources={"input": "continue"}).program
    fifth = plan_change(fourth, plan(reading(files("c"))), version=5, sources={"input": "anew"}).program
    assert [p.source_key("input") for p in (second, third, fourth, fifth)] == [
        "input@2", "input@2", "input@2", "input@5",
    ]  # fmt: skip


def test_a_source_that_comes_back_continues_if_it_reads_the_same() -> None:
    both = plan(reading(files("a"), also=files("b")))
    without = plan_change(both, plan(reading(files("a"))), version=2).program
    again = plan_change(without, plan(reading(files("a"), also=files("b"))), version=3)
    assert dict(again.sources.continued)["other"] == "it comes back"
    elsewhere = plan_change(without, plan(reading(files("a"), also=files("c"))), version=3)
    assert [name for name, _ in elsewhere.sources.undecided] == ["other"]


@pytest.mark.parametrize("decisions", [{"nobody": "anew"}, {"input": "perhaps"}, {"out": "anew"}])
def test_a_decision_about_nothing_is_refused(decisions: dict[str, Any]) -> None:
    with pytest.raises(BadArgument):
        change(files("a"), files("a"), **decisions)


def test_a_version_from_before_sources_had_identities_continues_generation_0() -> None:
    old = plan(reading(files("a")))
    old.__setstate__({name: value for name, value in vars(old).items() if name != "lineages"})
    assert old.source_key("input") == "input"
    found = plan_change(old, plan(reading(files("a", lateness="1s"))), version=2)
    assert found.program.source_key("input") == "input"
    state = {k: v for k, v in vars(plan(reading(files("a")))).items() if k != "lineages"}
    stored = object.__new__(Program)
    stored.__setstate__(state)
    assert stored.lineages == {}


# --- on the reference engine, and in the intake as Spark asks it ---------------------------------------


def lines(folder: Path, name: str, *values: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f'{{"n": {value}}}\n' for value in values))


@pytest.fixture
def two_folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with files of the same names, sizes and times but other numbers."""
    first, second = tmp_path / "a", tmp_path / "b"
    lines(first, "1.jsonl", 1, 2, 3)
    lines(first, "2.jsonl", 4)
    lines(second, "1.jsonl", 5, 6, 7)
    lines(second, "2.jsonl", 8)
    return first, second


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_files_of_another_folder_with_the_same_names_are_read(
    two_folders: tuple[Path, Path], rows: int
) -> None:
    first, second = two_folders
    run = ReferenceRun(reading(files(first)))
    run.drain(Epoch(rows))
    run.change(reading(files(second)), sources={"input": "anew"})
    run.drain(Epoch(rows))
    assert run.result()["out"]["n"].to_list() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_files_that_were_moved_go_on_where_they_were(tmp_path: Path, two_folders: tuple[Path, Path]) -> None:
    run = ReferenceRun(reading(files(two_folders[0])))
    run.step(Epoch(2))
    two_folders[0].rename(tmp_path / "moved")
    run.change(reading(files(tmp_path / "moved")), sources={"input": "continue"})
    run.drain()
    assert run.result()["out"]["n"].to_list() == [1, 2, 3, 4]


class Planned:
    """A run directory whose epochs are planned as Spark asks for them; no JVM is needed for that."""

    def __init__(self, path: Path, topology: ps.Topology) -> None:
        self.directory = RunDirectory(path)
        self.directory.open(topology.name)
        self.term = self.directory.begin_term()
        first = plan_change(Program(type(topology.graph)(topology.name), {}, {}), plan(topology), version=1)
        self.directory.store(1, first.program)
        self.directory.make_current(1)
        self.start = self._reader().initialOffset()

    def change(self, topology: ps.Topology, **decisions: Any) -> None:
        current = self.directory.current()
        change_version(self.directory, plan(topology), planned_on=current, hops=1, sources=decisions)

    def epoch(self, *, limit_to: int = 4) -> list[int]:
        """Plan and read one epoch by a reader that has just been started; the numbers that it gives."""
        reader, again = self._reader(), self._reader()
        end = reader.latestOffset(self.start, ReadAllAvailable())
        program = self.directory.load(end["version"])
        shares = [share for p in reader.partitions(self.start, end) for share in p.shares]
        replayed = [share for p in again.partitions(self.start, end) for share in p.shares]
        assert [share.split for share in shares] == [share.split for share in replayed]
        reader.commit(end)
        self.start = end
        found: list[int] = []
        for share in shares:
            split = _split(share.split)
            for batch in program.sources[share.source].source.read(split, _never):
                found += batch.rows["n"].to_list()
        return sorted(found)

    def _reader(self) -> IntakeReader:
        return IntakeReader(str(self.directory.path), "run", term=self.term, tasks=2, reads_ahead=False)


def _split(text: str) -> Split:
    import json

    return Split(**json.loads(text))


def _never(bad: object) -> None:
    raise AssertionError(bad)


def test_the_intake_reads_all_files_of_another_folder(tmp_path: Path, two_folders: tuple[Path, Path]) -> None:
    first, second = two_folders
    run = Planned(tmp_path / "run", reading(files(first)))
    assert run.epoch() == [1, 2, 3, 4]
    run.change(reading(files(second)), input="anew")
    assert run.epoch() == [5, 6, 7, 8]
    assert run.start["generations"] == {"input": 2}
    assert sorted(path.name for path in run.directory.planners.iterdir()) == ["input", "input@2"]
    lines(second, "3.jsonl", 9)
    assert run.epoch() == [9]


def test_files_can_become_a_generator(tmp_path: Path, two_folders: tuple[Path, Path]) -> None:
    run = Planned(tmp_path / "run", reading(files(two_folders[0])))
    run.epoch()
    with pytest.raises(SourceUndecided):
        run.change(reading(generated()))
    run.change(reading(generated()), input="anew")
    assert run.epoch() == list(range(10))


def test_offsets_without_generations_continue(tmp_path: Path, two_folders: tuple[Path, Path]) -> None:
    """As in run directories and savepoints that were made before."""
    run = Planned(tmp_path / "run", reading(files(two_folders[0])))
    run.epoch()
    assert "generations" not in run.start
    old = dataclasses.replace(run.directory.load(1), lineages={})
    run.directory.store(1, old)
    lines(two_folders[0], "3.jsonl", 11)
    assert run.epoch() == [11]
    run.change(reading(files(two_folders[0], lateness="1s")))
    lines(two_folders[0], "4.jsonl", 12)
    assert run.epoch() == [12]


def test_a_source_that_comes_back_gives_what_it_had_not_given(tmp_path: Path) -> None:
    lines(tmp_path / "a", "1.jsonl", 1)
    lines(tmp_path / "b", "1.jsonl", 2)
    both = reading(files(tmp_path / "a"), also=files(tmp_path / "b"))
    run = Planned(tmp_path / "run", both)
    assert run.epoch() == [1, 2]
    run.change(reading(files(tmp_path / "a")))
    run.epoch()
    lines(tmp_path / "b", "2.jsonl", 3)
    run.change(both)
    assert run.epoch() == [3]


ACTIONS = st.lists(
    st.one_of(
        st.just("epoch"),
        st.tuples(st.just("write"), st.sampled_from("ab")),
        st.tuples(st.just("anew"), st.sampled_from("ab")),
        st.just("lateness"),
        st.just("remove and bring back"),
    ),
    max_size=14,
)


@pytest.mark.long
@settings(max_examples=150)
@given(ACTIONS)
def test_each_generation_reads_all_of_its_folder_once(actions: list[Any]) -> None:
    """Whatever changes come between: the model knows only which numbers lie where, and which were read."""
    with tempfile.TemporaryDirectory() as name:
        place, there = Path(name), {"a": [1], "b": [2]}
        for folder in there:
            lines(place / folder, "00.jsonl", there[folder][0])
        current, read, lateness = "a", set[int](), 0
        always = generated(rows=0)
        run = Planned(place / "run", reading(files(place / "a"), also=always))
        for number, action in enumerate([*actions, "epoch"], 3):
            match action:
                case "epoch":
                    assert run.epoch() == sorted(set(there[current]) - read)
                    read = set(there[current])
                case ("write", folder):
                    lines(place / folder, f"{number:02}.jsonl", number)
                    there[folder].append(number)
                case ("anew", folder):
                    run.change(reading(files(place / folder), also=always), input="anew")
                    current, read = folder, set()
                case "lateness":
                    lateness += 1
                    source = files(place / current, lateness=f"{lateness}s")
                    run.change(reading(source, also=always))
                case "remove and bring back":
                    run.change(reading(None, also=always))
                    run.change(reading(files(place / current), also=always))


# --- time ------------------------------------------------------------------------------------------------


def at(second: int) -> datetime:
    return datetime(2026, 1, 1) + timedelta(seconds=second)


def every_second_from(begin: int) -> Any:
    def make(first: int, count: int) -> pl.DataFrame:
        n = range(first, first + count)
        return pl.DataFrame(
            {"time": [at(begin + i) for i in n], "n": list(n)},
            schema={"time": pl.Datetime("us"), "n": pl.Int64},
        )

    return make


def windows(begin: int, *, start: int = 0, rows: int = 30) -> ps.Topology:
    top = ps.Topology("windows")
    source = ps.Generator(every_second_from(begin), schema=EVENTS, rows=rows, time="time", start=start)
    counted = top.source("input", source).aggregate(
        "counts", window=ps.tumbling("10s"), rows=ps.count(), parallelism=1
    )
    counted.sink("out", ps.Collect())
    counted.output("late").sink("late", ps.Collect())
    return top


def test_events_of_a_source_that_starts_anew_are_not_late_because_the_old_one_had_ended() -> None:
    run = ReferenceRun(windows(0))
    run.drain(Epoch(7))
    assert run._punctuations.nodes == {"counts": END_OF_TIME}
    run.change(windows(100, start=1), sources={"input": "anew"})
    run.drain(Epoch(7))
    counts = run.result()["out"].sort("start")["rows"].to_list()
    assert sum(counts) == 60
    assert run.result()["late"].height == 0
    assert run._punctuations.nodes == {"counts": END_OF_TIME}


def test_what_a_source_that_starts_anew_gives_for_windows_that_were_emitted_is_late() -> None:
    run = ReferenceRun(windows(0))
    run.drain()
    run.change(windows(0, start=1, rows=40), sources={"input": "anew"})
    run.drain(Epoch(5))
    late = run.result()["late"]["events"].sum()
    assert run.result()["out"]["rows"].sum() + late == 70
    assert late == 19  # the events of seconds 1 to 19: time had come to second 29


def test_a_source_that_is_added_after_all_others_have_ended_is_not_late_either() -> None:
    run = ReferenceRun(windows(0))
    run.drain()
    top = ps.Topology("windows")
    old = ps.Generator(every_second_from(0), schema=EVENTS, rows=30, time="time")
    new = ps.Generator(every_second_from(100), schema=EVENTS, rows=30, time="time")
    both = top.source("input", old).union("both", top.source("more", new))
    counted = both.aggregate("counts", window=ps.tumbling("10s"), rows=ps.count(), parallelism=1)
    counted.sink("out", ps.Collect())
    counted.output("late").sink("late", ps.Collect())
    run.change(top, allow_state_loss=True)
    run.drain(Epoch(7))
    assert run.result()["late"].height == 0
    assert run.result()["out"]["rows"].sum() == 60


def test_the_intake_takes_back_the_end_of_time_before_any_event(tmp_path: Path) -> None:
    run = Planned(tmp_path / "run", windows(0))
    run.directory.write_observed({"input": 29})
    assert len(run.epoch()) == 30
    assert run.start["punctuation"]["nodes"] == {"counts": END_OF_TIME}
    run.change(windows(100, start=1), input="anew")
    assert run.epoch() == []
    assert run.start["punctuation"]["nodes"] == {"counts": 29}
    assert len(run.epoch()) == 30
