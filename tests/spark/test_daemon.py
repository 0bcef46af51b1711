"""The process that workers are forked from: its protocol on descriptor 1, and stacks of workers that hang."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from penstock.spark.stack_files import FOLDER, collect_stacks

_DAEMON = """
import os, sys
import pyspark
import told_worker
from penstock.spark import daemon
sys.modules["pyspark.worker"] = told_worker
daemon.preload = lambda: os.write(1, b"words of a library\\n")
daemon.main()
"""
_WORKER = """
import os, threading

def main(infile, outfile):
    os.write(1, b"native words\\n")
    os.system("echo words of a child")
    print("python words", flush=True)
    outfile.write(b"done")
    outfile.flush()
    if infile.read(4) == b"hang":
        hang()

def hang():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""


@contextmanager
def _daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "told_worker.py").write_text(_WORKER)
    places = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {
        **os.environ,
        "PYTHONPATH": places,
        "PYTHON_WORKER_FACTORY_SECRET": "s",
        FOLDER: str(folder),
    }
    environment.pop("PYTHON_UNIX_DOMAIN_ENABLED", None)
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-c", _DAEMON, "pyspark.worker"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def _number(data: bytes) -> int:
    return int(struct.unpack("!i", data)[0])


@contextmanager
def _worker(daemon: subprocess.Popen[bytes]) -> Iterator[tuple[int, socket.socket]]:
    """Ask for a worker as the JVM does; its process and a connection to it."""
    assert daemon.stdout is not None
    port = _number(daemon.stdout.read(4))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        pid = _number(link.recv(4, socket.MSG_WAITALL))
        link.sendall(struct.pack("!i", 1) + b"s")
        assert link.recv(6, socket.MSG_WAITALL)[4:] == b"ok"
        assert link.recv(4, socket.MSG_WAITALL) == b"done"
        try:
            yield pid, link
        finally:
            os.kill(pid, signal.SIGKILL)


def test_native_words_on_descriptor_1_reach_standard_error_and_not_the_protocol(tmp_path: Path) -> None:
    with _daemon(tmp_path) as daemon:
        with _worker(daemon) as (pid, _):
            assert psutil.pid_exists(pid)
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        daemon.stdin.close()
        assert daemon.stdout.read() == b"", "the port is all that comes through the pipe"
    said = (tmp_path / "stderr").read_text()
    for words in ("words of a library", "native words", "words of a child", "python words"):
        assert words in said


@pytest.mark.timeout(30)
def test_a_worker_that_outlives_its_daemon_does_not_keep_the_pipe_to_the_jvm_open(tmp_path: Path) -> None:
    with _daemon(tmp_path) as daemon, _worker(daemon) as (pid, _):
        daemon.kill()
        assert daemon.stdout is not None
        assert daemon.stdout.read() == b""
        assert psutil.pid_exists(pid)


def test_a_worker_that_waits_for_a_lock_writes_where_it_stands_and_goes_on_waiting(tmp_path: Path) -> None:
    with _daemon(tmp_path) as daemon, _worker(daemon) as (pid, link):
        link.sendall(b"hang")
        worker = psutil.Process(pid)
        for _ in range(2):  # also a second time
            stacks = _until_it_hangs(tmp_path, worker)
            assert "in hang" in stacks
            assert stacks.count("most recent call first") == 1, "what it wrote before is left out"
        assert worker.is_running()
        assert worker.status() != psutil.STATUS_ZOMBIE


def _until_it_hangs(folder: Path, worker: psutil.Process) -> str:
    for _ in range(50):  # the request to hang is on its way
        stacks = collect_stacks(folder, [worker])[worker.pid]
        if "in hang" in stacks:
            return stacks
    return ""


def test_a_process_that_has_not_registered_is_not_signalled(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert collect_stacks(tmp_path, [psutil.Process(other.pid)]) == {}
            earlier = tmp_path / f"{other.pid}.stacks"  # an earlier process had this number
            earlier.touch()
            os.utime(earlier, (0, 0))
            assert collect_stacks(tmp_path, [psutil.Process(other.pid)]) == {}
            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.parametrize("value", ["", None])
def test_without_a_folder_no_process_takes_the_signal(value: str | None) -> None:
    script = (
        "import faulthandler, signal; from penstock.spark.stack_files import dump_stacks_on_signal\n"
        "dump_stacks_on_signal(); print(faulthandler.unregister(signal.SIGUSR1))"
    )
    environment = {name: text for name, text in os.environ.items() if name != FOLDER}
    if value is not None:
        environment[FOLDER] = value
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
