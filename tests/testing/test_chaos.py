"""The parts of the chaos harness that need no Spark: faults, schedules, damage, the oracle, the report."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from tests.mutations import MUTATIONS

import penstock as ps
from penstock.connect.source import Source
from penstock.errors import InternalError, RunDirectoryBroken, SavepointFailed, StreamFailed
from penstock.testing import chaos
from penstock.testing.chaos import faults as points
from penstock.testing.chaos.damage import Damaged, damage, lose_last_commit
from penstock.testing.chaos.dying import dying
from penstock.testing.chaos.families import PER_EPOCH, ROWS
from penstock.testing.chaos.faults import POINTS, Fault, claim, disclaim, lay_out
from penstock.testing.chaos.lane import Lane, Rounds, Work
from penstock.testing.chaos.matrix import divided
from penstock.testing.chaos.places import Warm
from penstock.testing.chaos.schedules import in_turn
from penstock.testing.chaos.trial import Trial
from penstock.testing.chaos.watched import WatchedSource, with_points

FAMILIES = {check.name: check for check in chaos.FAMILIES}
SCENARIOS = {scenario.name: scenario for scenario in chaos.SCENARIOS}


def outcome(schedule: chaos.Schedule, **values: object) -> chaos.Outcome:
    return chaos.Outcome(schedule, **{"events": 100, "seconds": 1.0, "recovery_s": 0.5, **values})  # type: ignore[arg-type]


def test_a_watched_source_says_of_itself_all_that_the_source_does() -> None:
    said = {name for name in vars(Source) if not name.startswith("_")} - {"attend"}
    assert said <= vars(WatchedSource).keys()


def test_scenarios_are_divided_by_the_places_that_they_need() -> None:
    here, second, elsewhere = divided(chaos.SCENARIOS)
    assert sorted(s.name for s in (*here, *second, *elsewhere)) == sorted(SCENARIOS)
    assert {s.place for s in second} == {"warm"}
    assert {s.place for s in elsewhere} == {"second", "supervised", "supervised-disk", "cluster"}
    assert divided(elsewhere[:1]) == [elsewhere[:1]]


def test_rounds_begin_one_by_one_and_none_begins_after_the_end() -> None:
    read, write = os.pipe()
    rounds = Rounds(os.fdopen(read, "rb"))
    os.write(write, b"\n\n")
    assert rounds.wait_for(0)
    assert rounds.wait_for(1)
    os.close(write)
    assert not rounds.wait_for(2)


def test_a_process_that_waits_for_rounds_can_end() -> None:
    waiting = "import sys; from penstock.testing.chaos.lane import Rounds, standard_input as lines;"
    waiting += "rounds = Rounds(lines()); rounds.wait_for(0); sys.exit(3)"
    with subprocess.Popen(
        [sys.executable, "-c", waiting], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == 3
        assert process.stderr.read() == b""


@pytest.mark.long
def test_a_lane_that_dies_does_not_pass_for_one_that_found_nothing() -> None:
    def broken(folder: Path) -> ps.Topology:
        raise OSError("no room")

    work = Work([SCENARIOS["no-fault"]], [chaos.Check("broken", broken)], seed=0)
    told: list[chaos.Outcome] = []
    lane = Lane(work, told.append)
    lane.advance(0)
    lane._hearing.join()
    with pytest.raises(InternalError):
        lane.finish()
    assert not told


def test_a_schedule_follows_from_scenario_check_and_seed_alone() -> None:
    for scenario, seed in itertools.product(chaos.SCENARIOS, range(20)):
        first = chaos.Schedule(scenario, FAMILIES["keyed"], seed).faults
        assert chaos.Schedule(scenario, FAMILIES["keyed"], seed).faults == first
    drawn = {chaos.Schedule(SCENARIOS["reading"], FAMILIES["keyed"], seed).faults for seed in range(20)}
    assert len(drawn) > 5


def test_every_drawn_fault_names_a_point_and_an_action_that_exist() -> None:
    from penstock.testing.chaos.actions import ACTIONS

    for scenario, seed in itertools.product(chaos.SCENARIOS, range(50)):
        for fault in chaos.Schedule(scenario, FAMILIES["keyed"], seed).faults:
            assert fault.point in {*POINTS, points.COMMITTED}
            assert (fault.action in ACTIONS) == (fault.deed == "do")


def test_every_scenario_meets_every_check_that_it_suits() -> None:
    met = {
        (schedule.scenario.name, schedule.check.name)
        for schedule in itertools.islice(in_turn(chaos.SCENARIOS, chaos.FAMILIES), 10_000)
    }
    assert met == {(s.name, c.name) for s in chaos.SCENARIOS for c in chaos.FAMILIES if s.suits(c)}


def test_a_fault_happens_to_one_process_only(tmp_path: Path) -> None:
    lay_out(tmp_path, [Fault("reading", 2, "sleep", 0.3)])
    took = []
    for _ in range(4):
        began = time.monotonic()
        points.reach(tmp_path, "reading")
        took.append(time.monotonic() - began)
    assert [seconds > 0.2 for seconds in took] == [False, True, False, False]
    assert not claim(tmp_path, 0)
    assert list(points.fired(tmp_path)) == [0]
    disclaim(tmp_path, 0)
    assert not points.fired(tmp_path)
    assert claim(tmp_path, 0)


def test_what_fails_goes_on_failing_until_its_time_is_over(tmp_path: Path) -> None:
    lay_out(tmp_path, [Fault("in-write", 2, "fail", 60.0)])
    points.reach(tmp_path, "in-write")
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            points.reach(tmp_path, "in-write")
    points.reach(tmp_path, "before-sink")
    began_s = time.time() - 61
    os.utime(tmp_path / "0.fired", (began_s, began_s))
    points.reach(tmp_path, "in-write")


def failed(reason: str) -> StreamFailed:
    return StreamFailed(topology="t", epoch=3, reason=reason)


def broken(path: Path) -> RunDirectoryBroken:
    return RunDirectoryBroken(path=path, what="is damaged", next_step="")


def not_saved(what: str) -> SavepointFailed:
    return SavepointFailed(directory="run", what=what, next_step="")


def test_a_scenario_expects_the_errors_that_its_faults_lead_to_and_no_others() -> None:
    damaged, refused = broken(Path("run.json")), not_saved("epoch 3 is not finished")
    full = failed("OSError: No space left on device")
    expecting = {
        error: {name for name, scenario in SCENARIOS.items() if scenario.expects(error)}
        for error in (damaged, refused, full, not_saved("Spark could not repartition"))
    }
    assert list(expecting.values())[:2] == [{"file-torn", "file-doubled", "bit-flipped"}, {"during-rescale"}]
    assert "disk-full" in expecting[full]
    assert not SCENARIOS["disk-full"].expects(failed("a worker died"))
    assert not list(expecting.values())[-1]


def test_a_supervised_run_may_end_with_no_error_at_all() -> None:
    assert {s.may_end for s in chaos.SCENARIOS if s.place in ("supervised", "supervised-disk")} == {()}


def test_an_error_is_unexpected_before_any_fault_and_if_it_names_another_file(tmp_path: Path) -> None:
    trial = Trial(chaos.Schedule(SCENARIOS["file-torn"], FAMILIES["stateless"], 1), tmp_path, Warm())
    lay_out(trial.faults, trial.schedule.faults)
    path = trial.directory.path / "run.json"
    trial.damaged = Damaged(path, b"")
    assert not trial._is_expected(broken(path))
    assert trial._is_expected(failed("Broken pipe")), "a worker that an earlier schedule has killed"
    claim(trial.faults, 0)
    assert trial._is_expected(broken(path))
    assert not trial._is_expected(broken(path.with_name("fabric.json")))
    assert not trial._is_expected(failed("a file is damaged"))
    trial.damaged = None  # it is mended
    assert not trial._is_expected(broken(path))


def test_damaged_checksums_are_named_by_the_file_that_they_are_of() -> None:
    damaged = Damaged(Path("run/offsets/.3.crc"), b"")
    assert damaged.is_named_by(broken(Path("run/offsets/3")))
    assert not damaged.is_named_by(broken(Path("run/commits/3")))
    assert not damaged.is_named_by(failed("run/offsets/3"))


@pytest.mark.long
@pytest.mark.parametrize(("deed", "code"), [("die", -signal.SIGKILL), ("jump", 0)])
def test_a_deed_is_done_to_the_process_that_comes_to_the_point(tmp_path: Path, deed: str, code: int) -> None:
    lay_out(tmp_path, [Fault("written", 1, deed, 7200.0)])  # type: ignore[arg-type]
    script = (
        "import sys, time; from pathlib import Path; from penstock.testing.chaos.faults import reach; "
        "reach(Path(sys.argv[1]), 'written'); print(time.time())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    if deed == "jump":
        assert float(done.stdout) == pytest.approx(time.time() + 7200, abs=60)


@pytest.mark.long
def test_a_frozen_process_goes_on_when_it_is_woken(tmp_path: Path) -> None:
    from penstock.testing.chaos.processes import wait_until, wake

    lay_out(tmp_path, [Fault("written", 1, "freeze")])
    script = (
        "import sys; from pathlib import Path; from penstock.testing.chaos.faults import reach; "
        "reach(Path(sys.argv[1]), 'written')"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    assert wait_until(lambda: list(points.frozen(tmp_path)), timeout_s=30)
    assert [pid for _, pid in points.frozen(tmp_path)] == [process.pid]
    assert wait_until(
        lambda: os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG), timeout_s=30
    )
    assert process.poll() is None
    wake(process.pid)
    assert process.wait(30) == 0


@pytest.mark.long
def test_points_change_nothing_where_no_fault_is_due(tmp_path: Path) -> None:
    from penstock.testing import run

    lay_out(tmp_path / "faults", [])
    plain = FAMILIES["keyed"].build(tmp_path)
    assert run(with_points(plain, tmp_path / "faults"))["table"].equals(run(plain)["table"])
    assert (tmp_path / "faults" / "reading.visits").stat().st_size == ROWS // PER_EPOCH


@pytest.mark.parametrize("kind", ["tear", "double", "flip"])
def test_damage_changes_one_file_that_matters_and_can_be_mended(tmp_path: Path, kind: str) -> None:
    for name in ("run.json", "checkpoint/offsets/0", "checkpoint/commits/0", "progress.jsonl", "console.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"some bytes of " + name.encode())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    hit = set()
    for seed in range(30):
        damaged = damage(tmp_path, kind, random.Random(seed))  # type: ignore[arg-type]
        changed = [path for path, content in before.items() if path.read_bytes() != content]
        assert changed == [damaged.path]
        hit.add(damaged.path.relative_to(tmp_path).as_posix())
        damaged.mend()
    assert {path: path.read_bytes() for path in before} == before
    assert hit == {"run.json", "checkpoint/offsets/0", "checkpoint/commits/0"}


def test_losing_the_last_commit_leaves_the_others(tmp_path: Path) -> None:
    commits = tmp_path / "commits"
    commits.mkdir()
    for number in (8, 9, 10):
        (commits / str(number)).touch()
        (commits / f".{number}.crc").touch()
    lose_last_commit(tmp_path)
    assert sorted(path.name for path in commits.iterdir()) == [".8.crc", ".9.crc", "8", "9"]


def test_work_that_dies_leaves_what_it_wrote_before_and_cleans_nothing_up(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.mkdir()
    others.mkdir()

    def work() -> None:
        (others / "file").write_text("not watched")
        try:
            for number in range(3):
                (mine / f".{number}").write_text("pending")
                (mine / f".{number}").replace(mine / str(number))
        finally:
            for leftover in mine.glob(".*"):
                leftover.unlink()

    left = []
    for writes in range(8):
        with dying(mine, at_write=writes):
            work()
        left.append(sorted(path.name for path in mine.iterdir()))
        for path in mine.iterdir():
            path.unlink()
    assert left[:4] == [[], [".0"], ["0"], [".1", "0"]]
    assert left[6:] == [["0", "1", "2"]] * 2


def test_rows_are_compared_as_multisets() -> None:
    expected = pl.DataFrame({"a": [1, 1, 2], "b": [[1], [1], [2]]})
    assert not chaos.compare(expected, expected[::-1])
    assert not chaos.compare(expected, expected.select("b", "a"))
    got = pl.DataFrame({"a": [1, 1, 1, 9], "b": [[1], [1], [1], [2]]})
    assert chaos.compare(expected, got) == chaos.Difference(lost=1, doubled=1, wrong=1)
    assert chaos.compare(expected, pl.DataFrame()) == chaos.Difference(lost=3)
    assert not chaos.compare(pl.DataFrame({"x": [float("nan")]}), pl.DataFrame({"x": [float("nan")]}))


def test_the_report_counts_per_cell_and_says_how_to_run_a_schedule_again() -> None:
    good = chaos.Schedule(SCENARIOS["reading"], FAMILIES["keyed"], 3)
    bad = chaos.Schedule(SCENARIOS["commit-lost"], FAMILIES["join"], 4)
    report = chaos.Report()
    report.add(outcome(good))
    report.add(outcome(good, recovery_s=2.0))
    report.add(outcome(bad, sinks={"table": chaos.Difference(doubled=5)}))
    report.add(outcome(bad, trouble="it hangs", unfired=("lose-commit at committed 1",)))
    told = report.to_json()
    assert {key: told[key] for key in ("schedules", "fired", "events", "lost", "doubled", "wrong")} == {
        "schedules": 4, "fired": 3, "events": 400, "lost": 0, "doubled": 5, "wrong": 1,
    }  # fmt: skip
    assert [(cell["scenario"], cell["schedules"], cell["worst_recovery_s"]) for cell in told["cells"]] == [
        ("commit-lost", 2, 0.5),
        ("reading", 2, 2.0),
    ]
    assert "--scenario commit-lost --check join --seed 4" in told["red"][0]["replay"]
    assert "2 RED" in report.table()


def test_the_report_names_schedules_in_which_no_fault_happened() -> None:
    report = chaos.Report()
    lost = chaos.Schedule(SCENARIOS["commit-lost"], FAMILIES["join"], 4)
    twice = chaos.Schedule(SCENARIOS["cluster-worker-killed"], FAMILIES["keyed"], 4)
    report.add(outcome(chaos.Schedule(SCENARIOS["no-fault"], FAMILIES["keyed"], 0)))
    report.add(outcome(twice, unfired=tuple(map(str, twice.faults[1:]))))
    assert report.to_json()["idle"] == []
    report.add(outcome(lost, unfired=tuple(map(str, lost.faults))))
    assert report.to_json()["idle"] == [f"penstock chaos {lost}"]
    assert f"no fault happened: penstock chaos {lost}" in report.table()
    assert report.total.fired == 1
    assert not report.red


def test_a_choice_without_any_schedule_is_refused() -> None:
    changes = [scenario for scenario in chaos.SCENARIOS if scenario.changes]
    with pytest.raises(ps.errors.BadArgument) as caught:
        chaos.run_matrix(changes, [FAMILIES["join"]], seconds=1)
    assert caught.value.condition == "BAD_ARGUMENT"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutations_still_fit_the_code(mutation: object, tmp_path: Path) -> None:
    import shutil

    target = tmp_path / mutation.file  # type: ignore[attr-defined]
    target.parent.mkdir(parents=True)
    shutil.copy(Path(ps.__file__).parent / mutation.file, target)  # type: ignore[attr-defined]
    before = target.read_text()
    mutation.apply(tmp_path)  # type: ignore[attr-defined]
    assert target.read_text() != before
    compile(target.read_text(), mutation.file, "exec")  # type: ignore[attr-defined]
