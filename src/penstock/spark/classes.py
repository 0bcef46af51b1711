"""Spark's classes as the JVM wants them, recorded once, so that later starts need not load them one by one.

A first epoch was there after 22 instead of 31 seconds (two cores, Java 17). The JVM itself checks that the
record fits its version and the jars, and goes on without it if not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from penstock.spark.home import spark_home
from penstock.spark.java import Java, find_java, writable_folder

_EXIT_TIMEOUT_S = 120
_RECORDING_TIMEOUT_S = 300
_MODULE = "penstock.spark.classes"


def archive_for(java: Java) -> Path:
    """Where the record for this Java and the jars of this Spark is, or would be."""
    return (
        writable_folder("classes")
        / f"java-{java.version}-spark-{pyspark.__version__}-{spark_home().name}.jsa"
    )


def jvm_options(java: Java) -> str:
    """What to start a JVM with: the record, if there is one."""
    archive = archive_for(java)
    return f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""


def record() -> str:
    """Run a small topology and keep the classes that it used, once. Takes a minute; tells what came of it.

    Runs work without the record too, so a JVM that cannot make one is no failure.
    """
    archive = archive_for(find_java())
    if archive.exists():
        return "the classes of Spark are recorded already"
    archive.parent.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_name(f".{os.getpid()}-{archive.name}")
    command = [sys.executable, "-m", _MODULE, "--into", str(fresh)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_RECORDING_TIMEOUT_S
        )
        if done.returncode == 0 and fresh.exists():
            fresh.replace(archive)
            return "the classes of Spark are recorded"
        reason = done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"it took longer than {_RECORDING_TIMEOUT_S} s"
    finally:
        fresh.unlink(missing_ok=True)
    return f"the classes of Spark were not recorded, starts take longer ({reason})"


def _run_and_record(into: str) -> None:
    from pyspark import SparkContext

    from penstock.spark.options import RunOptions
    from penstock.spark.session import jvm_settings
    from penstock.spark.warm_up import warm_up

    with tempfile.TemporaryDirectory(prefix="penstock-classes-") as folder:
        place = Path(folder)
        java_options = f"{jvm_settings(place)} -XX:ArchiveClassesAtExit={into}"
        spark = {"spark.driver.extraJavaOptions": java_options}
        warm_up(RunOptions(spark=spark))
        jvm = SparkContext._gateway.proc  # type: ignore[union-attr]
        jvm.stdin.close()  # the JVM ends when its parent's pipe does, and writes the record then
        jvm.wait(_EXIT_TIMEOUT_S)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--into"]:
        _run_and_record(sys.argv[2])
    else:
        sys.stdout.write(f"{record()}\n")
