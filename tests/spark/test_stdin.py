"""Standard input through Spark: killed in the middle, continued with another pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

from penstock import testing
from penstock.apps import click_stream
from penstock.apps.click_stream import Site
from penstock.control.run_directory import RunDirectory
from penstock.testing.chaos.processes import wait_until

pytestmark = pytest.mark.spark
SITE = Site(rate=200.0)
REQUESTS = 12_000
OPTIONS: dict[str, Any] = {"window": "20s", "slide": "5s", "top": 5, "away": "15s", "lateness": "5s"}


def test_what_was_piped_in_before_a_kill_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    SITE.write_log(tmp_path / "a.log", 0, REQUESTS)
    log = (tmp_path / "a.log").read_bytes()
    middle = len(log) // 2 + 7  # in the middle of a line
    command = [sys.executable, "-m", "penstock.cli", "run", "click-stream", "--stdin", "--until", "finished"]
    command += ["--dir", str(tmp_path / "run"), "--directory", str(tmp_path / "out")]
    command += [word for name, value in OPTIONS.items() for word in (f"--{name}", str(value))]
    command += ["--bytes-per-epoch", "400000"]  # so that more is in the spool than the first epoch takes
    left = _killed_after(command, log[:middle], tmp_path / "run")
    assert left < middle // 2, "most of it was taken from the pipe before the kill"
    subprocess.run(command, input=log[middle - left :], check=True, timeout=150, stdout=subprocess.DEVNULL)
    trends = pl.read_delta(str(tmp_path / "out" / "trends"))
    expected = testing.run(click_stream.topology(tmp_path / "a.log", **OPTIONS))["trends"]
    assert expected.height > 30
    assert trends.sort("end", "rank").equals(expected.sort("end", "rank"))
    assert pl.read_delta(str(tmp_path / "out" / "methods"))["requests"].max() == REQUESTS


def _killed_after(command: list[str], data: bytes, run: Path) -> int:
    """Pipe data in, kill all processes when some of it has been committed; how much was left in the pipe."""
    (source, sink), is_over = os.pipe(), threading.Event()
    feeder = threading.Thread(target=_feed, args=(sink, data, is_over))
    with subprocess.Popen(command, stdin=source, stdout=subprocess.DEVNULL) as process:
        feeder.start()
        try:
            directory = RunDirectory(run)
            assert wait_until(directory.last_progress, timeout_s=120), "no epoch was committed"
        finally:
            for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            is_over.set()
    with open(source, "rb") as pipe:
        left = len(pipe.read())
    feeder.join()
    return left


def _feed(sink: int, data: bytes, is_over: threading.Event) -> None:
    with open(sink, "wb", buffering=0) as pipe:
        while data:
            data = data[pipe.write(data) or 0 :]
        is_over.wait()  # an earlier close would be the end of the input
