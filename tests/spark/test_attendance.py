"""What a source needs beside the run follows the version, each generation in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

import penstock as ps
from penstock.connect.source import Batch, Reject, Source, SourcePlanner, Split
from penstock.control.changes import plan_change
from penstock.control.run_directory import RunDirectory
from penstock.plan import plan
from penstock.plan.program import Program
from penstock.spark.attendance import Attendance


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": range(first, first + count)}, schema={"n": pl.Int64})


@dataclass(frozen=True)
class Piped(Source):
    """Notes in a file when it is attended, where, and when no longer."""

    log: Path = field(metadata={"identity": False})
    other: bool = field(default=False, metadata={"identity": False})

    @property
    def schema(self) -> ps.Schema:
        return ps.Schema.of({"n": int})

    @property
    def time(self) -> str | None:
        return None

    def planner(self, state_dir: Path) -> SourcePlanner:
        return ps.Generator(numbers, schema={"n": int}, rows=1).planner(state_dir)

    def read(self, split: Split, reject: Reject) -> Iterator[Batch]:
        return ps.Generator(numbers, schema={"n": int}, rows=1).read(split, reject)

    @contextmanager
    def attend(self, state_dir: Path) -> Iterator[None]:
        self._note(f"begin {state_dir.name}")
        yield
        self._note(f"end {state_dir.name}")

    def _note(self, text: str) -> None:
        with open(self.log, "a") as file:
            file.write(f"{text}\n")


def program(*sources: tuple[str, Any]) -> Program:
    top = ps.Topology("numbers")
    for name, source in sources:
        top.source(name, source).sink(f"{name}-out", ps.Collect())
    return plan(top)


def test_sources_are_attended_as_the_version_has_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    attendance = Attendance(RunDirectory(tmp_path / "run"))
    first = program(("a", Piped(log)))
    attendance.follow(first)
    attendance.follow(first)
    both = plan_change(first, program(("a", Piped(log)), ("b", Piped(log))), version=2).program
    attendance.follow(both)
    anew = plan_change(both, program(("a", Piped(log))), version=3, sources={"a": "anew"}).program
    attendance.follow(anew)
    attendance.close()
    attendance.close()
    assert log.read_text().splitlines() == ["begin a", "begin b", "end a", "end b", "begin a@3", "end a@3"]
