"""Modes of local files are set by the JVM, and else local files are what Hadoop makes of them."""

from __future__ import annotations

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.spark.file_modes import set_modes_in_jvm
from tests.spark.topologies import ORDERS, make_orders

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark_run: Any) -> SparkSession:
    top = ps.Topology("any")
    top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=10)).sink("out", ps.Collect())
    spark_run.through(top)
    return SparkSession.builder.getOrCreate()


def local_files(session: SparkSession) -> Any:
    """What tasks get that ask for local files with settings of their own."""
    hadoop = session._jvm.org.apache.hadoop
    return hadoop.fs.FileSystem.get(session._jvm.java.net.URI("file:///"), hadoop.conf.Configuration())


def path(session: SparkSession, file: Path) -> Any:
    return session._jvm.org.apache.hadoop.fs.Path(file.as_uri())


def write(session: SparkSession, file: Path, text: bytes, files: Any = None) -> None:
    out = (files or local_files(session)).create(path(session, file))
    out.write(text)
    out.close()


def time_of_processes_s(session: SparkSession, files: Any, folder: Path) -> float:
    """What the JVM's processes take for twenty files. The least of some rounds, as old workers may end."""
    jvm = psutil.Process(session.sparkContext._gateway.proc.pid)

    def round_s(folder: Path) -> float:
        before = jvm.cpu_times()
        for number in range(20):
            write(session, folder / f"file-{number}", b"rows", files)
        after = jvm.cpu_times()
        return sum(after[2:4]) - sum(before[2:4])

    return min(round_s(folder / str(number)) for number in range(5))


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_run_sets_modes_in_the_jvm(session: SparkSession, tmp_path: Path) -> None:
    ours, hadoops = local_files(session), session._jvm.org.apache.hadoop.fs.LocalFileSystem()
    hadoops.initialize(session._jvm.java.net.URI("file:///"), session._jsc.hadoopConfiguration())
    assert ours.getClass().getName() == "penstock.LocalFiles"
    assert time_of_processes_s(session, ours, tmp_path / "ours") == 0
    assert time_of_processes_s(session, hadoops, tmp_path / "hadoops") > 0


def test_modes_and_sums_are_as_hadoop_makes_them(session: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    write(session, file, b"rows")
    assert mode_of(file) == mode_of(file.with_name(".file.crc")) == 0o644
    permission = session._jvm.org.apache.hadoop.fs.permission.FsPermission
    for mode in (0o600, 0o751, 0o1777):
        local_files(session).setPermission(path(session, file.parent), permission(f"{mode:o}"))
        assert mode_of(file.parent) == mode


def test_a_file_that_is_there_is_not_replaced(session: SparkSession, tmp_path: Path) -> None:
    """Two drivers that write the same epoch: the later one is to notice."""
    first, second = tmp_path / "first", tmp_path / "second"
    write(session, first, b"first")
    write(session, second, b"second")
    assert not local_files(session).rename(path(session, second), path(session, first))
    assert first.read_bytes() == b"first"


def test_of_two_that_write_one_file_at_once_exactly_one_succeeds(
    session: SparkSession, tmp_path: Path
) -> None:
    files, rounds = local_files(session), 300
    ready = threading.Barrier(2)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for number in range(rounds):
            (tmp_path / name / str(number)).write_text(name)

    def rename_all(name: str) -> list[bool]:
        done = []
        for number in range(rounds):
            source, target = (
                path(session, tmp_path / name / str(number)),
                path(session, tmp_path / str(number)),
            )
            ready.wait()
            done.append(files.rename(source, target))
        return done

    with ThreadPoolExecutor(2) as pool:
        by_a, by_b = pool.map(rename_all, ("a", "b"))
    assert [a + b for a, b in zip(by_a, by_b, strict=True)] == [1] * rounds
    assert [(tmp_path / str(n)).read_text() for n in range(rounds)] == ["a" if a else "b" for a in by_a]


def test_local_files_that_the_user_has_chosen_are_kept(session: SparkSession) -> None:
    settings = session._jsc.hadoopConfiguration()
    settings.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        assert not set_modes_in_jvm(session)
    finally:
        settings.unset("fs.file.impl")
    assert set_modes_in_jvm(session)
