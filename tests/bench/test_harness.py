"""The harness, on benchmarks that measure nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.bench import harness, memory
from penstock.errors import InternalError

pytestmark = pytest.mark.long


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> harness.Bench:
    """Its figure is 1, 10, 100, … by the number of the run; it prints, as Spark does."""
    text = """
import os, subprocess
def run(settings):
    print("noise on standard output")
    assert settings.directory.is_dir() and settings.cores >= 1
    return {"events_per_s": 10.0 ** settings.number, "pid": os.getpid()}
"""
    (tmp_path / "powers_bench.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return harness.Bench("powers", "powers of ten", "powers_bench")


def test_the_last_line_is_one_json_object_with_the_medians(
    bench: harness.Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    harness.measure(bench, runs=3)
    report = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (report["bench"], report["events_per_s"], report["runs"]) == ("powers", 10.0, 3)
    assert report["peak_rss_bytes"] > 1 << 20
    assert {"cores", "python", "spark", "cpu"} <= report.keys()


def test_people_read_each_run_before_it(bench: harness.Bench, capfd: pytest.CaptureFixture[str]) -> None:
    harness.measure(bench, runs=1)
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "powers: powers of ten"
    assert "run 1 of 1" in lines[1]


def test_quiet_leaves_only_the_json_line(bench: harness.Bench, capfd: pytest.CaptureFixture[str]) -> None:
    harness.measure(bench, runs=1, quiet=True)
    [line] = capfd.readouterr().out.splitlines()
    assert json.loads(line)["bench"] == "powers"


def test_each_run_has_a_process_of_its_own(bench: harness.Bench) -> None:
    assert harness.run_once(bench)["pid"] != harness.run_once(bench)["pid"]


def test_a_run_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_bench.py").write_text("def run(settings):\n    raise SystemExit(3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(InternalError):
        harness.run_once(harness.Bench("failing", "fails", "failing_bench"))


def test_nothing_outlives_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import subprocess, sys
def run(settings):
    return {"child": subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid}
"""
    (tmp_path / "leaving_bench.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    figures = harness.run_once(harness.Bench("leaving", "leaves a child", "leaving_bench"))
    assert memory.process_bytes(int(figures["child"])) == 0


def test_memory_of_children_is_counted() -> None:
    script = "data = bytearray(64 << 20); print('ready', flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    with memory.PeakMemory(os.getpid()) as peak:
        alone = memory.process_bytes(os.getpid())
    child.communicate("\n")
    assert peak.bytes >= alone + (60 << 20)


def test_the_memory_of_a_process_that_is_gone_is_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert memory.tree(child.pid) == []


def test_every_registered_benchmark_names_a_module_of_this_package() -> None:
    assert all(
        bench.module == f"penstock.bench.{name.replace('-', '_')}" for name, bench in harness.BENCHES.items()
    )
