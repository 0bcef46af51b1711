"""A SparkSession with the settings that Penstock relies on."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.connect.private import open_private
from penstock.spark.classes import jvm_options
from penstock.spark.file_modes import set_modes_in_jvm
from penstock.spark.home import spark_home
from penstock.spark.intake import Fabric
from penstock.spark.java import find_java
from penstock.spark.options import RunOptions
from penstock.spark.stack_files import FOLDER

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows costs a read per write: 0.2 instead of 0.6 million puts/s.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    # The default forks a process per file on a local disk: 130 instead of 40 ms per epoch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A row is a frame of up to megabytes: small batches let the JVM and Python work at the same time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
    # Frames of packets are larger: 32 of them took more than the JVM's direct memory. With 64 MiB, buffers
    # came from the system and went back with each batch: the application tracker was a sixth slower.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    # Payloads are narrow already: compressing them made no difference to an epoch of 8 million events.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Spark computes these sums only to explain a fetch that failed; they cost a pass over every byte.
    "spark.shuffle.checksum.enabled": "false",
    # Sums over every byte of every row, to see whether a task that ran again gave the same rows. Ours do, but
    # for the seconds in their metrics; for these alone Spark would run whole stages again.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    # Frames are large: with the default of 32 KiB an intake task took the JVM 230 to 420 ms of processor time
    # instead of 140 to 340.
    "spark.shuffle.file.buffer": "1m",
    # What an epoch has exchanged goes with it. Otherwise it goes when the JVM happens to collect: a gigabyte
    # of pages to be written to the disk, for which each epoch needs new ones.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    "spark.sql.streaming.pollingDelay": "5ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # By default a query that is stopped waits for its thread for ever, also for one in a planner that hangs.
    "spark.sql.streaming.stopTimeout": "30s",
    # Files of the run that nobody can replay any more: keep enough to look back, not all.
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "penstock.spark.daemon",
    # Over TCP a small epoch took 343 instead of 306 ms (one run each).
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "ERROR",
    # By default a task asks a dead executor for its blocks three times, five seconds apart, and waits three
    # seconds for the executor that had its state.
    "spark.shuffle.io.retryWait": "200ms",
    "spark.locality.wait": "300ms",
}
# Spark writes a program for the rows of each query, in every task anew. To the fabric a row is a frame, of
# which an epoch has hundreds: they need none. The JVM's part of a small epoch went from 297, 304 and 283 to
# 273 and 270 ms of processor time. Users' DataFrames have events for rows.
_FOR_ROWS = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
_FOR_FRAMES = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Workers and the JVM use tens of megabytes for each frame and the next epoch asks for them again. Given back
# to the system in between they come as fresh pages, which cost the application tracker a sixth of its time.
_KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
    "MIMALLOC_PURGE_DELAY": "5000",  # Arrow's, in ms
}
# Polars' own, which it puts before what it finds there. Half a second is less than an epoch: with 20 s the
# application tracker went from 0.41 to 0.46 million packets/s (medians of four and three runs).
_POLARS, _POLARS_SAYS = "_RJEM_MALLOC_CONF", "dirty_decay_ms:500,muzzy_decay_ms:1000"
_KEEP_IN_POLARS = "dirty_decay_ms:20000"
# The JVM's first compiler only. On two cores the second one's work cost more than its code gave back: ten
# epochs of 8 million events went through at 6.2 million/s without it, 4.7 with it (one run each). A JVM with
# one compiler has room for 48 MiB of code and stops compiling when it is full: it gets as much as with two.
_JVM = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# For each file of a checkpoint, and for the sums beside it, an executor's JVM starts a process which sets its
# mode (the driver's need not, see `file_modes`). By way of the JVM's usual helper a small epoch took 315 ms,
# directly 205 to 260. Later Javas warn of it, and other systems than Linux refuse it.
_START_DIRECTLY, _WARNS_FROM = "-Djdk.lang.Process.launchMechanism=VFORK", 22
# Fewer and larger pages for the heap, where the system has them to give: the JVM's time in the system went
# from 3.3 to 2.1 s in three epochs of the application tracker. Only on Linux does the JVM know the option.
_LARGE_PAGES = "-XX:+UseTransparentHugePages"
# One context of logging for all classes. By default log4j walks the stack for each object that may log, to
# find the caller's, and each run of Spark's rules makes such objects: a fortieth of a small epoch's time.
_LOGGING = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{1}
# A failing query is reported by the runner with node and reason; Spark's own words repeat it at length.
logger.quiet.name = org.apache.spark
logger.quiet.level = off
"""


def open_session(
    options: RunOptions, directory: Path, partitions: int, *, has_dataframes: bool
) -> SparkSession:
    """Start Spark, or join the session that this process already has."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # the cores belong to Spark's tasks
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("penstock").master(options.master)
    for_rows = _FOR_ROWS if has_dataframes else _FOR_FRAMES
    ours = {**SETTINGS, **for_rows, **_for_a_new_jvm(options, directory)}
    for name, value in {**ours, **options.spark}.items():
        builder = builder.config(name, value)
    with _jvm_output_to(directory / "spark.log"):
        spark = builder.getOrCreate()
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        spark.dataSource.register(Fabric)
        set_modes_in_jvm(spark)
        _hang_up_quietly(spark.sparkContext)
    return spark


def _hang_up_quietly(context: SparkContext) -> None:
    """Keep tracebacks off the terminal when the JVM has died: the runner reports it in a sentence.

    The thread that receives the JVM's counters loses its connection; py4j logs each call without an answer.
    """
    logging.getLogger().addFilter(_is_news)
    server: Any = context._accumulatorServer
    usual = type(server).handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            usual(server, request, client_address)

    server.handle_error = handle_error


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a record of the root logger is anything but py4j's word of a call without an answer."""
    failure = record.exc_info[1] if record.exc_info else None
    is_py4j = record.module in ("java_gateway", "clientserver")
    return not (is_py4j and isinstance(failure, Py4JError | OSError))


def _for_a_new_jvm(options: RunOptions, directory: Path) -> dict[str, str]:
    """What a JVM is started with; nothing if this process has one: asking Java costs a process each time."""
    if SparkContext._jvm is not None:
        return {}
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    for name, value in _KEEP_MEMORY.items():
        os.environ.setdefault(name, value)
    os.environ[_POLARS] = polars_keeps_memory(os.environ.get(_POLARS, ""))
    if options.master.startswith(("local", "spark://")):  # others ship the archives to their machines
        os.environ["SPARK_HOME"] = str(spark_home())
    more = f"{jvm_options(java)} {_on_this_system(java.major)}"
    return {
        "spark.driver.memory": options.memory,
        **(private_local_folder() if options.master.startswith("local") else {}),
        **{f"spark.executorEnv.{name}": os.environ[name] for name in (*_KEEP_MEMORY, _POLARS)},
        "spark.driver.extraJavaOptions": f"{jvm_settings(directory)} {more}",
        # An executor that takes a dead one's place is given tasks at once, so it must not be slow to begin.
        # On a machine that lacks the record the JVM goes on without it.
        "spark.executor.extraJavaOptions": f"{_LOGGING} {_JVM} {more}",
    }


def private_local_folder() -> dict[str, str]:
    """Have Spark put what it exchanges into a folder of this user's alone; in /tmp everyone could read it.

    A driver process has a folder already, which goes with it. Executors of a cluster follow its settings.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        folder = tempfile.mkdtemp(prefix="penstock-local-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"spark.local.dir": folder}


def _on_this_system(java: int) -> str:
    if sys.platform != "linux":
        return ""
    return f"{_LARGE_PAGES} {_START_DIRECTLY}" if java < _WARNS_FROM else _LARGE_PAGES


def polars_keeps_memory(said: str) -> str:
    """What workers are to find: our wish instead of Polars' own, and behind it the user's, who has the last.

    >>> polars_keeps_memory("dirty_decay_ms:500,muzzy_decay_ms:1000,narenas:2")
    'dirty_decay_ms:20000,narenas:2'
    """
    users = said.removeprefix(_POLARS_SAYS).removeprefix(",").removeprefix(_KEEP_IN_POLARS).removeprefix(",")
    return f"{_KEEP_IN_POLARS},{users}" if users else _KEEP_IN_POLARS


def spark_is_gone() -> bool:
    """Whether this process had a JVM with Spark in it, and has it no longer."""
    jvm, context = SparkContext._jvm, SparkContext._active_spark_context
    if jvm is None:
        return False
    try:
        jvm.System.nanoTime()
        return context is not None and bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def is_one_process(master: str) -> bool:
    """Whether all tasks run in the driver's JVM."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def cores_of(master: str) -> int:
    """The cores that a master offers, as far as its name tells."""
    if match := re.fullmatch(r"local\[(\d+|\*)(?:,\d+)?\]", master):
        return os.cpu_count() or 1 if match[1] == "*" else int(match[1])
    if match := re.fullmatch(r"local-cluster\[(\d+),(\d+),\d+\]", master):
        return int(match[1]) * int(match[2])
    return 1 if master == "local" else (os.cpu_count() or 1)


def jvm_settings(directory: Path) -> str:
    """How the JVM on this machine is to behave."""
    quiet = directory / "log4j2.properties"
    with open(quiet, "w", opener=open_private) as file:
        file.write(_LOG4J)
    return f"-Dlog4j2.configurationFile={quiet.as_uri()} {_LOGGING} {_JVM}"


@contextmanager
def _jvm_output_to(log: Path) -> Iterator[None]:
    """Let a JVM that is started inside write its notices to a file and not to the user's terminal."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with open(log, "ab", opener=open_private) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about versions that the project pins
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
