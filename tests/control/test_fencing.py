"""Fencing tokens: the runner that began last may write, also when tokens were lost in between."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.control.fencing import number_of
from penstock.control.run_directory import RunDirectory
from penstock.errors import Fenced, RunDirectoryBroken


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path / "run")
    made.open("shop")
    return made


def test_only_the_newest_token_may_write(run: RunDirectory) -> None:
    older, newer = run.begin_term(), run.begin_term()
    run.require_term(newer)
    with pytest.raises(Fenced) as caught:
        run.require_term(older)
    assert (caught.value.parameters["newest"], caught.value.parameters["mine"]) == (2, 1)


def test_runners_that_begin_at_once_have_tokens_of_their_own(run: RunDirectory) -> None:
    ready = threading.Barrier(8)

    def begin(_: int) -> str:
        ready.wait()
        return run.begin_term()

    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(begin, range(8)))
    assert len(set(map(number_of, tokens))) == 8
    run.require_term(max(tokens))


@pytest.mark.parametrize("how", ["folder", "files"])
def test_a_runner_whose_tokens_are_lost_ends_with_words(run: RunDirectory, how: str) -> None:
    token = run.begin_term()
    _lose(run, how)
    with pytest.raises(RunDirectoryBroken) as caught:
        run.require_term(token)
    assert caught.value.parameters["path"] == run.path / "terms"
    assert "start it again" in caught.value.parameters["next_step"]


@pytest.mark.parametrize("second_place", [True, False])
@pytest.mark.parametrize("how", ["folder", "files"])
def test_an_older_runner_is_refused_also_if_all_tokens_were_lost(
    run: RunDirectory, how: str, second_place: bool
) -> None:
    """The newer one would otherwise begin at number 1 again, which the older one has."""
    older = run.begin_term()
    _lose(run, how)
    if not second_place:
        (run.path / "token.json").unlink()
    newer = run.begin_term()
    assert number_of(newer) == (2 if second_place else 1)
    run.require_term(newer)
    with pytest.raises(Fenced):
        run.require_term(older)


def test_a_damaged_second_place_costs_nothing(run: RunDirectory) -> None:
    older = run.begin_term()
    (run.path / "token.json").write_text("{")
    newer = run.begin_term()
    assert (number_of(older), number_of(newer)) == (1, 2)


def test_tokens_of_an_earlier_penstock_are_older(run: RunDirectory) -> None:
    """They were empty files."""
    (run.path / "terms").mkdir()
    (run.path / "terms" / f"{7:012d}").touch()
    assert number_of(run.begin_term()) == 8


def test_few_tokens_are_kept(run: RunDirectory) -> None:
    for _ in range(20):
        newest = run.begin_term()
    assert len(list((run.path / "terms").iterdir())) == 2
    run.require_term(newest)


def _lose(run: RunDirectory, how: str) -> None:
    if how == "folder":
        shutil.rmtree(run.path / "terms")
    else:
        for path in (run.path / "terms").iterdir():
            path.unlink()
