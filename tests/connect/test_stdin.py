"""Standard input: what is piped in is kept, cut into epochs and read once, whatever happens in between."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from penstock.connect.source import Limit
from penstock.connect.spool import Spooler, ended, segments
from penstock.connect.stdin import Stdin
from penstock.control.restarting import kind_of
from penstock.errors import BadArgument, RunDirectoryMismatch, SourceUnavailable
from penstock.testing.sources import check_source, read_range

LINES = [f"line {n} {'x' * (n % 40)}" for n in range(500)]
DATA = "".join(f"{line}\n" for line in LINES).encode()


def _until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < deadline, "it did not come to this"
        time.sleep(0.01)


def _spool(folder: Path, data: bytes, segment_bytes: int = 1 << 20) -> None:
    """Pipe data into a spool until its end."""
    reading, writing = os.pipe()
    with Spooler(folder, reading, segment_bytes):
        for begin in range(0, len(data), 997):
            os.write(writing, data[begin : begin + 997])
        os.close(writing)
        _until(lambda: ended(folder))
    os.close(reading)


def _all(folder: Path) -> list[str]:
    source = Stdin(format="text")
    planner = source.planner(folder)
    start = planner.initial()
    rows, bad = read_range(source, planner, start, planner.latest(start, Limit()), 3)
    assert not bad
    return rows["line"].to_list()


@pytest.mark.parametrize("segment_bytes", [64, 3000, 1 << 20])
def test_everything_that_was_piped_in_is_read_whatever_the_segments(
    tmp_path: Path, segment_bytes: int
) -> None:
    _spool(tmp_path, DATA, segment_bytes)
    assert _all(tmp_path) == LINES
    assert (len(segments(tmp_path)) > 1) == (segment_bytes < len(DATA))


@pytest.mark.long
def test_it_keeps_to_the_contract_of_sources(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    _spool(folder, DATA, 3000)

    class Copied(Stdin):
        """Each planner of the check has a state folder of its own: give each the same spool."""

        def planner(self, state_dir: Path):  # type: ignore[no-untyped-def]
            if not state_dir.exists():
                state_dir.mkdir(parents=True)
                for path in folder.iterdir():
                    os.link(path, state_dir / path.name)
            return super().planner(state_dir)

    rows = check_source(lambda: Copied(format="text"), tmp_path)
    assert rows["line"].to_list() == LINES


def test_a_line_is_read_when_it_is_whole_and_at_the_end_as_it_is(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    planner = Stdin(format="text").planner(tmp_path)
    with Spooler(tmp_path, reading):
        os.write(writing, b"whole\nhal")
        _until(lambda: bool(planner.backlog(planner.initial()).bytes == 9))
        assert planner.latest(planner.initial(), Limit())["position"] == 6
        os.write(writing, b"f")
        os.close(writing)
        _until(lambda: ended(tmp_path))
    os.close(reading)
    assert _all(tmp_path) == ["whole", "half"]
    assert planner.finished(planner.latest(planner.initial(), Limit()))


def test_an_epoch_that_was_planned_before_the_end_is_not_the_last(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    planner = Stdin(format="text").planner(tmp_path)
    with Spooler(tmp_path, reading):
        os.write(writing, b"all of it\n")
        _until(lambda: bool(planner.backlog(planner.initial()).bytes == 10))
        planned = planner.latest(planner.initial(), Limit())
        os.close(writing)
        _until(lambda: ended(tmp_path))
    os.close(reading)
    assert not planner.finished(planned), "its punctuation was another one than that of the end"
    assert planner.finished(planner.latest(planned, Limit()))


def test_a_segment_that_is_gone_is_told(tmp_path: Path) -> None:
    _spool(tmp_path, DATA, 3000)
    planner = Stdin(format="text").planner(tmp_path)
    end = planner.latest(planner.initial(), Limit())
    (tmp_path / "000000000000.lines").unlink()
    with pytest.raises(SourceUnavailable) as caught:
        planner.splits(planner.initial(), end, 2)
    assert caught.value.parameters["where"].endswith("000000000000.lines")


def test_a_spooler_that_is_followed_by_another_loses_nothing_of_a_pipe_that_stays_open(
    tmp_path: Path,
) -> None:
    reading, writing = os.pipe()
    with Spooler(tmp_path, reading, 3000):
        os.write(writing, DATA[:7001])
        _until(lambda: sum(path.stat().st_size for path in segments(tmp_path).values()) >= 7001)
    os.write(writing, DATA[7001:])
    os.close(writing)
    with Spooler(tmp_path, reading, 3000):
        _until(lambda: ended(tmp_path))
    os.close(reading)
    assert _all(tmp_path) == LINES


def test_a_crash_while_a_segment_was_begun_repeats_no_line(tmp_path: Path) -> None:
    (tmp_path / "000000000000.lines").write_bytes(b"one\ntwo\nthr")  # not cut yet
    (tmp_path / "000000000001.lines").write_bytes(b"thr")
    _spool(tmp_path, b"ee\n")
    assert _all(tmp_path) == ["one", "two", "three"]


def test_a_limit_of_rows_is_kept_over_many_segments(tmp_path: Path) -> None:
    for number in range(10):
        lines = LINES[50 * number : 50 * (number + 1)]
        (tmp_path / f"{number:012d}.lines").write_text("".join(f"{line}\n" for line in lines))
    source = Stdin(format="text")
    planner = source.planner(tmp_path)
    start = planner.initial()
    middle = planner.latest(start, Limit(rows=320))
    assert read_range(source, planner, start, middle, 2)[0]["line"].to_list() == LINES[:320]


def test_segments_that_were_read_are_deleted_but_the_last_epoch_can_be_repeated(tmp_path: Path) -> None:
    _spool(tmp_path, DATA, 1000)
    source = Stdin(format="text")
    planner = source.planner(tmp_path)
    middle = planner.latest(planner.initial(), Limit(rows=300))
    end = planner.latest(middle, Limit())
    planner.commit(middle)
    planner.commit(end)
    assert min(segments(tmp_path)) == middle["segment"]
    assert read_range(source, planner, middle, end, 2)[0]["line"].to_list() == LINES[300:]


def test_input_for_a_run_whose_input_has_ended_is_refused(tmp_path: Path) -> None:
    _spool(tmp_path, DATA)
    reading, writing = os.pipe()
    with pytest.raises(RunDirectoryMismatch) as caught, Spooler(tmp_path, reading):
        pass
    assert kind_of(caught.value) == "final", "a supervisor must tell it at once, and not wait"
    with open(os.devnull) as nothing, Spooler(tmp_path, nothing.fileno()):
        assert _all(tmp_path) == LINES
    os.close(reading)
    os.close(writing)


def test_a_file_can_stand_in_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(DATA)
    with open(tmp_path / "input") as file, Spooler(tmp_path / "spool", file.fileno()):
        _until(lambda: ended(tmp_path / "spool"))
    assert _all(tmp_path / "spool") == LINES


def test_lines_are_parsed_as_those_of_files_are(tmp_path: Path) -> None:
    _spool(tmp_path, b'{"n": 1}\n{"n": 2}\nnonsense\n')
    source = Stdin(format="jsonl", schema={"n": int})
    planner = source.planner(tmp_path)
    rows, bad = read_range(source, planner, planner.initial(), planner.latest(planner.initial(), Limit()), 1)
    assert rows.equals(pl.DataFrame({"n": [1, 2]}))
    assert [(record.where, record.raw) for record in bad] == [("000000000000.lines:3", b"nonsense")]


def test_a_format_without_lines_is_refused() -> None:
    with pytest.raises(BadArgument) as caught:
        Stdin(format="parquet")  # type: ignore[arg-type]
    assert caught.value.parameters["what"] == "format"
