"""``python -m tests.upgrades.environments``: another Python, and another Polars for this one.

Both go into the folder that ``PENSTOCK_UPGRADES`` names (default: ``.upgrades``) and stay there: making them
takes a few minutes. What cannot be had on a machine is left out; the tests that need it say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("PENSTOCK_UPGRADES", ROOT / ".upgrades"))
OTHER_PYTHONS = ("3.13", "3.12", "3.11", "3.14")
OTHER_POLARS = ("2.0.0", "2.1.0")


_TEST_TOOLS = ("pytest>=8.4,<10", "pytest-timeout>=2.4,<3", "hypothesis>=6.140,<7")


@dataclass(frozen=True)
class Environment:
    """How to start a Python with the libraries of one release."""

    name: str
    python: Path
    packages: Path | None = None
    """Packages that come before those of the environment."""

    @property
    def variables(self) -> dict[str, str]:
        paths = [str(ROOT / "src"), str(ROOT), *([str(self.packages)] if self.packages else [])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": str(self.python)}


HERE = Environment("this Python", Path(sys.executable))


def other_python() -> Environment | None:
    """The environment of another Python, if it was made."""
    for python in sorted(FOLDER.glob("python-*/bin/python")):
        if python.parts[-3] != _folder_of(f"{sys.version_info.major}.{sys.version_info.minor}"):
            return Environment(python.parts[-3], python)
    return None


def other_polars() -> Environment | None:
    """This Python with another Polars, if it was made."""
    for packages in sorted(FOLDER.glob("polars-*/site-packages")):
        if packages.parts[-2] != f"polars-{pl.__version__}":
            return Environment(packages.parts[-2], Path(sys.executable), packages)
    return None


def make() -> None:
    """Make what is not there yet."""
    FOLDER.mkdir(exist_ok=True)
    python = other_python() or _make_python()
    print(f"another Python: {python.python if python else 'none can be found on this machine'}")
    polars = other_polars() or _make_polars()
    print(f"another Polars: {polars.packages if polars else 'none can be installed'}")


def _folder_of(version: str) -> str:
    return f"python-{version}"


def _make_python() -> Environment | None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in OTHER_PYTHONS:
        found = _interpreter(version)
        if version == here or found is None:
            continue
        folder = FOLDER / _folder_of(version)
        with (ROOT / "pyproject.toml").open("rb") as file:
            needed = [*tomllib.load(file)["project"]["dependencies"], *_TEST_TOOLS]
        if _runs(found, "-m", "venv", str(folder)) and _runs(
            folder / "bin" / "python", "-m", "pip", "install", "--quiet", *needed
        ):
            return Environment(folder.name, folder / "bin" / "python")
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _make_polars() -> Environment | None:
    for version in OTHER_POLARS:
        folder = FOLDER / f"polars-{version}"
        needed = [f"polars=={version}", f"polars-runtime-32=={version}"]
        target = folder / "site-packages"
        if version != pl.__version__ and _runs(
            Path(sys.executable), "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, *needed
        ):
            return Environment(folder.name, Path(sys.executable), target)
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _interpreter(version: str) -> Path | None:
    """A Python of this minor: on the path, or among those of pyenv. A shim of pyenv may lead nowhere."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = shutil.which(f"python{version}")
    for candidate in [*sorted(pyenv.glob(f"{version}.*/bin/python")), *([Path(on_path)] if on_path else [])]:
        if _runs(candidate, "-c", f"import sys; assert '%d.%d' % sys.version_info[:2] == '{version}'"):
            return candidate
    return None


def _runs(python: Path, *arguments: object) -> bool:
    command = [str(python), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    make()
