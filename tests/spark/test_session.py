"""What processes of a run find in their environment, and what they say at its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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


@pytest.mark.spark
def test_a_jvm_that_dies_leaves_no_traceback() -> None:
    """It is told by who runs the query, in words for people."""
    told = subprocess.run(
        [sys.executable, "-c", _WITH_A_DEAD_JVM], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout == "no answer\n"
    assert told.stderr == ""
