"""What processes of a run find in their environment, and what they say at its end."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from penstock.spark.session import _is_news

_WITH_A_DEAD_JVM = """
import sys, pathlib, tempfile, time
from py4j.protocol import Py4JError
from pyspark import SparkContext
from penstock.spark.options import RunOptions
from penstock.spark.session import open_session
spark = open_session(RunOptions(master="local[1]"), pathlib.Path(tempfile.mkdtemp()), 1, has_dataframes=False)
counter = spark.sparkContext.accumulator(0)
spark.sparkContext.parallelize([1], 1).foreach(counter.add)
assert counter.value == 1
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
try:
    spark.sparkContext._jvm.System.nanoTime()
except (Py4JError, OSError):
    print("no answer")
time.sleep(1.5)  # who listens to the JVM looks every second
"""
_AS_WORKER = (
    "import os, polars; from penstock.spark.session import polars_keeps_memory as keeps;"
    "print(keeps(keeps(os.environ['_RJEM_MALLOC_CONF'])))"
)


@pytest.mark.parametrize(
    ("users", "found"),
    [
        ("", "dirty_decay_ms:20000"),
        ("dirty_decay_ms:0", "dirty_decay_ms:20000,dirty_decay_ms:0"),  # the last one counts
        ("narenas:2", "dirty_decay_ms:20000,narenas:2"),
    ],
)
def test_polars_keeps_memory_unless_the_user_says_otherwise(users: str, found: str) -> None:
    environment = {**os.environ, "_RJEM_MALLOC_CONF": users}
    told = subprocess.run(
        [sys.executable, "-c", _AS_WORKER], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == found


@contextmanager
def hangs_up() -> Iterator[int]:
    """A server that answers every call by closing the connection, as a JVM does that is about to die."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.recv(1 << 16)
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("is_quiet", [False, True])
def test_py4j_logs_calls_without_an_answer_unless_a_session_was_opened(
    is_quiet: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """On a busy machine a dying JVM still accepts the second try of a call, and py4j logs a traceback."""
    root = logging.getLogger()
    if is_quiet:
        root.addFilter(_is_news)
    try:
        with hangs_up() as port:
            gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
            with pytest.raises(Py4JError):
                gateway.jvm.java.lang.System.nanoTime()
            gateway.close()
    finally:
        root.removeFilter(_is_news)
    assert bool(caplog.records) is not is_quiet


@pytest.mark.spark
def test_a_jvm_that_dies_leaves_no_traceback() -> None:
    """It is told by who runs the query, in words for people."""
    told = subprocess.run(
        [sys.executable, "-c", _WITH_A_DEAD_JVM], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout == "no answer\n"
    assert told.stderr == ""
