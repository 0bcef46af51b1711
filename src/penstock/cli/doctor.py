"""What this machine has, what is missing, and how to get it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from penstock.cli import numbers
from penstock.errors import JavaNotFound, NdpiUnusable

Status = Literal["ok", "warn", "missing"]
_GIB = 1 << 30
_MEMORY_BYTES = 4 * _GIB
_DISK_BYTES = 5 * _GIB
_SHARED_BYTES = 256 << 20
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*([^;]*?)\s*(;.*)?$")
_BOUND = re.compile(r"^(>=|<=|==|!=|<|>|~=)\s*(.+)$")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    found: str
    advice: str = ""


def examine(directory: Path) -> list[Check]:
    """Look at everything that a run in ``directory`` needs. Starts nothing but `java -version`."""
    return [
        _python(),
        _java(),
        _cores(),
        _memory(),
        _disk("disk of the run", directory),
        _disk("disk for temporary files", Path(tempfile.gettempdir())),
        _shared_memory(Path("/dev/shm")),
        _kernel_cache(),
        *_packages(),
        _ndpi(),
    ]


def report(checks: Sequence[Check]) -> str:
    """One line per check, with what to do under those that are not well."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{check.status:<7}  {check.name:<{width}}  {check.found}")
        if check.advice:
            lines.append(f"{'':7}  {'':{width}}  → {check.advice}")
    worst = [status for status in ("missing", "warn") if any(check.status == status for check in checks)]
    verdict = {"missing": "something that Penstock needs is missing", "warn": "works, with the remarks above"}
    return "\n".join([*lines, "", verdict[worst[0]] if worst else "everything is there"])


def to_json(checks: Sequence[Check]) -> str:
    """The checks as a JSON list."""
    return json.dumps([asdict(check) for check in checks], indent=2)


def _python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()} in {sys.prefix}")


def _java() -> Check:
    from penstock.spark.java import find_java

    try:
        java = find_java()
    except JavaNotFound as error:
        advice = "pip install 'penstock[java]', or Debian: apt-get install openjdk-17-jre-headless"
        return Check("Java", "missing", f"found: {error.parameters['found']}", advice)
    return Check("Java", "ok", f"{java.version} ({java.origin}) in {java.home}")


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        return Check("cores", "warn", str(cores), "one core runs everything in turn; two or more are better")
    return Check("cores", "ok", str(cores))


def _memory() -> Check:
    import psutil

    free = min(psutil.virtual_memory().available, _limit_of_container())
    found = f"{numbers.size(free)} free"
    if free < _MEMORY_BYTES:
        return Check(
            "memory", "warn", found, f"a run takes up to {numbers.size(_MEMORY_BYTES)}; try --memory 512m"
        )
    return Check("memory", "ok", found)


def _limit_of_container() -> int:
    try:
        return int(Path("/sys/fs/cgroup/memory.max").read_text())
    except (OSError, ValueError):  # no cgroup v2 here, or the limit is "max"
        return sys.maxsize


def _disk(name: str, path: Path) -> Check:
    existing = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    found = f"{numbers.size(free)} free in {existing}"
    if not os.access(existing, os.W_OK):
        return Check(name, "missing", f"{existing} cannot be written", "choose another place (--dir, TMPDIR)")
    if free < _DISK_BYTES:
        return Check(
            name, "warn", found, f"below {numbers.size(_DISK_BYTES)}: checkpoints and results may not fit"
        )
    return Check(name, "ok", found)


def _shared_memory(path: Path) -> Check:
    if not path.is_dir():
        return Check("shared memory", "warn", f"no {path}", "some libraries keep temporary data there")
    total = shutil.disk_usage(path).total
    if total < _SHARED_BYTES:
        return Check(
            "shared memory", "warn", f"{numbers.size(total)} in {path}", "in a container: --shm-size=1g"
        )
    return Check("shared memory", "ok", f"{numbers.size(total)} in {path}")


def _kernel_cache() -> Check:
    """Compiled kernels are kept next to our modules, or where NUMBA_CACHE_DIR says."""
    import penstock

    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(chosen) if chosen else Path(penstock.__path__[0])
    if os.access(folder if folder.exists() else folder.parent, os.W_OK):
        return Check("compiled kernels", "ok", f"kept in {folder}")
    advice = "set NUMBA_CACHE_DIR to a folder that can be written"
    return Check(
        "compiled kernels", "warn", f"{folder} cannot be written: compiled anew in each process", advice
    )


def _ndpi() -> Check:
    """Compare nDPI with what is declared of it, without calling what could do harm."""
    from penstock.net.dpi import abi

    try:
        metadata.version("nfstream")
    except metadata.PackageNotFoundError:
        return Check("nDPI", "ok", "not installed (extra dpi): the built-in engine recognises applications")
    try:
        abi.loaded()
    except NdpiUnusable as error:
        told = error.parameters
        found = f"not used: {told['what']} is {told['got']}, allowed: {told['allowed']}"
        return Check("nDPI", "warn", found, str(told["next_step"]))
    return Check("nDPI", "ok", f"{abi.NDPI} (nfstream {abi.NFSTREAM})")


def _packages(installed: Callable[[str], str] = metadata.version) -> Iterator[Check]:
    for requirement in metadata.requires("penstock") or []:
        if "extra ==" not in requirement:
            yield check_package(requirement, installed)


def check_package(requirement: str, installed: Callable[[str], str]) -> Check:
    """Whether a requirement such as ``polars>=2.0,<3`` is met."""
    parsed = _REQUIREMENT.match(requirement)
    assert parsed is not None  # our own metadata
    name, bounds = parsed[1], parsed[2]
    advice = f"pip install '{name}{bounds}'"
    try:
        version = installed(name)
    except metadata.PackageNotFoundError:
        return Check(name, "missing", "not installed", advice)
    if not all(within(version, bound) for bound in bounds.split(",") if bound.strip()):
        return Check(name, "warn", f"{version}, tested with {bounds}", advice)
    return Check(name, "ok", version)


def within(version: str, bound: str) -> bool:
    """Whether a version satisfies one bound.

    >>> within("4.3.0", "<4.4"), within("2.0", ">=2.0.0"), within("3.0", "<3")
    (True, True, False)
    """
    parsed = _BOUND.match(bound.strip())
    if not parsed:
        return True
    left, right = _numbers(version), _numbers(parsed[2])
    width = max(len(left), len(right))
    left, right = left + [0] * (width - len(left)), right + [0] * (width - len(right))
    return {
        ">=": left >= right,
        "<=": left <= right,
        ">": left > right,
        "<": left < right,
        "==": left == right,
        "!=": left != right,
        "~=": left >= right,
    }[parsed[1]]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", re.split(r"[^0-9.]", version)[0])]
