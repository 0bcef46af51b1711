"""A home of Spark whose Python libraries are folders and not archives.

Spark puts the archives of its home before all else on the path of every Python process that it starts, and
Python compiles what it finds in an archive anew each time. To import pyspark took 1.3 instead of 0.5 s of
processor time, and the start of a query waits for three such processes and more.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from penstock.spark.java import writable_folder

_LIBRARIES = Path("python") / "lib"
_PARTS = ("bin", "sbin", "jars", "conf", "data")


def spark_home() -> Path:
    """The home that PySpark brings, with folders in place of archives. One that SPARK_HOME names is kept."""
    if chosen := os.environ.get("SPARK_HOME"):
        return Path(chosen)
    installed = _folder_of("pyspark")
    # The same cache may serve several environments.
    home = writable_folder("spark-home") / hashlib.sha256(bytes(installed)).hexdigest()[:12]
    if not home.exists():
        try:
            _lay_out(installed, home)
        except OSError:  # no room, or no links on this file system: starts take longer, that is all
            return installed
    return home


def _lay_out(installed: Path, home: Path) -> None:
    """All at once or not at all: several processes may do it at the same time."""
    home.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=home.parent))
    fresh.chmod(0o755)
    for part in _PARTS:
        if (installed / part).exists():
            (fresh / part).symlink_to(installed / part)
    for archive in (installed / _LIBRARIES).glob("*.zip"):
        package = archive.stem.partition("-")[0]
        (fresh / _LIBRARIES / archive.name).mkdir(parents=True)
        (fresh / _LIBRARIES / archive.name / package).symlink_to(_folder_of(package))
    with suppress(OSError):
        fresh.rename(home)
    shutil.rmtree(fresh, ignore_errors=True)


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
