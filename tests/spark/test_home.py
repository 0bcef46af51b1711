"""The home of Spark that processes are started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark import home

_WHERE = "import pyspark, py4j; print(pyspark.__file__); print(py4j.__file__); print(pyspark.__cached__)"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(home, "writable_folder", lambda name: tmp_path / name)
    return home.spark_home()


def test_libraries_of_the_home_are_found_under_the_names_of_the_archives_and_are_compiled_once(
    made: Path,
) -> None:
    # As Spark sets the path of a worker: the archives first.
    archives = sorted((made / "python" / "lib").iterdir())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, archives))}
    told = subprocess.run(
        [sys.executable, "-c", _WHERE], env=environment, capture_output=True, text=True, check=True
    )
    spark, py4j, compiled = told.stdout.split()
    assert all(".zip/" in path and path.startswith(str(made)) for path in (spark, py4j))
    assert Path(compiled).exists()


def test_home_has_what_starts_a_jvm_and_is_made_once(made: Path) -> None:
    assert (made / "bin" / "spark-submit").exists()
    assert any((made / "jars").glob("spark-core_*.jar"))
    before = made.stat().st_ctime_ns
    assert home.spark_home() == made
    assert made.stat().st_ctime_ns == before
    assert list(made.parent.iterdir()) == [made]


def test_a_home_that_was_chosen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert home.spark_home() == Path("/opt/spark")


def test_a_place_that_cannot_be_written_leaves_the_installed_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (tmp_path / "taken").write_text("a file, not a folder")
    monkeypatch.setattr(home, "writable_folder", lambda name: tmp_path / "taken")
    assert (home.spark_home() / "python" / "lib").is_dir()
