"""A sink whose place has vanished is waited for, and not begun anew."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.connect.sink import Sink
from penstock.control.run_directory import RunDirectory
from penstock.control.sink_places import note_place, require_place
from penstock.errors import SinkUnavailable
from penstock.testing.sinks import Harness, rows


@pytest.mark.parametrize("make", [ps.Delta, ps.Parquet, ps.JsonLines])
def test_what_was_written_must_still_be_there(tmp_path: Path, make: type[Sink]) -> None:
    run, mounted = RunDirectory(tmp_path / "run"), tmp_path / "mounted"
    sink = make(mounted / "out")  # type: ignore[call-arg]
    require_place(run, "out", sink)
    note_place(run, "out", sink)  # an epoch without rows leaves nothing
    Harness(sink, lambda *_: rows(0, 0), tmp_path).epoch(0, [rows(0, 1)])
    note_place(run, "out", sink)
    require_place(run, "out", sink)
    mounted.rename(tmp_path / "unmounted")
    (mounted / "out").mkdir(parents=True)
    with pytest.raises(SinkUnavailable):
        require_place(run, "out", sink)
    require_place(run, "out", make(mounted / "another"))  # type: ignore[call-arg]
    (mounted / "out").rmdir()
    mounted.rmdir()
    (tmp_path / "unmounted").rename(mounted)
    require_place(run, "out", sink)
    note_place(run, "out", make(mounted / "another"))  # type: ignore[call-arg]


def test_a_sink_without_a_place_is_never_missed(tmp_path: Path) -> None:
    run, sink = RunDirectory(tmp_path), ps.Collect()
    note_place(run, "out", sink)
    require_place(run, "out", sink)
    assert not run.sink_places.exists()
