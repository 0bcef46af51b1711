"""A run of one Python or Polars goes on under another, with its state and its unfinished epoch.

The other releases are installed by ``make upgrade``, which runs these tests; elsewhere they are skipped.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.control.run_directory import RunDirectory
from tests.upgrades import shop
from tests.upgrades.environments import HERE, ROOT, Environment, other_polars, other_python

pytestmark = [pytest.mark.spark, pytest.mark.upgrade]
BEGIN = Path(shop.__file__).with_name("begin.py")


@pytest.fixture
def python() -> Environment:
    if (found := other_python()) is None:
        pytest.skip("no other Python is installed for this: run `make upgrade`")
    return found


@pytest.fixture
def polars() -> Environment:
    if (found := other_polars()) is None:
        pytest.skip("no other Polars is installed for this: run `make upgrade`")
    return found


def begin(environment: Environment, run: Path) -> None:
    """Run some epochs, the last of which stays without its commit."""
    call(environment, str(BEGIN), str(shop.APP), str(run))
    assert len(list((run / "checkpoint" / "offsets").glob("[0-9]*"))) >= 4


def finish(environment: Environment, run: Path) -> str:
    """Go on as a user does."""
    command = ["-m", "penstock.cli", "run", str(shop.APP), "--dir", str(run)]
    return call(environment, *command, "--master", "local[2]", "--until", "finished")


def call(environment: Environment, *arguments: str) -> str:
    command = [str(environment.python), *arguments]
    done = subprocess.run(
        command, env=environment.variables, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{environment.name}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def require_unchanged(run: Path) -> None:
    """Every count is exact, and no version was made: nothing had changed."""
    shop.require_expected(run)
    assert RunDirectory(run).versions() == [1]


def test_a_run_goes_on_under_another_python(tmp_path: Path, python: Environment) -> None:
    begin(HERE, tmp_path / "run")
    finish(python, tmp_path / "run")
    require_unchanged(tmp_path / "run")


def test_a_run_of_another_python_goes_on_here(tmp_path: Path, python: Environment) -> None:
    begin(python, tmp_path / "run")
    finish(HERE, tmp_path / "run")
    require_unchanged(tmp_path / "run")


def test_a_run_goes_on_under_another_polars_and_back_again(tmp_path: Path, polars: Environment) -> None:
    begin(polars, tmp_path / "run")
    finish(HERE, tmp_path / "run")
    require_unchanged(tmp_path / "run")
    begin(HERE, tmp_path / "again")
    finish(polars, tmp_path / "again")
    require_unchanged(tmp_path / "again")


def test_digests_rebuilding_and_pickles_work_under_another_python(python: Environment) -> None:
    tests = ["operators/test_user_pickle.py", "topology", "control/test_rebuilding.py"]
    paths = [str(ROOT / "tests" / test) for test in tests]
    call(python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *paths)


def test_source_digests_are_equal_in_all_releases(python: Environment, polars: Environment) -> None:
    script = (
        "import sys; from penstock.cli.loading import load\n"
        "from penstock.topology.source_digest import source_digest\n"
        f"top = load({str(shop.APP)!r})\n"
        "print([source_digest(node.spec).exact for node in top.graph])"
    )
    here, *others = [call(environment, "-c", script) for environment in (HERE, python, polars)]
    assert "None" not in here
    assert others == [here, here]
