"""Every kernel states the sizes of what it writes, and a broken statement ends the call before the loop."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest
from tests import bounds

from penstock.errors import InternalError
from penstock.frames._jit import Column, bounded, kernel, within
from penstock.frames.hashing import stable_hash


@bounded("len(out) >= len(rows)", "len(rows) > ROOM - 3")
@kernel
def copied(rows: Column, out: Column) -> int:
    for i in range(len(rows)):
        out[i] = rows[i]
    return len(rows)


@kernel
def last_of(rows: Column, place: int) -> int:
    return rows[place]  # type: ignore[no-any-return]


ROOM = 4


def test_a_kernel_runs_if_its_sizes_are_as_stated() -> None:
    out = np.zeros(3, np.int64)
    assert copied(np.arange(3), out) == 3
    assert out.tolist() == [0, 1, 2]


def test_a_size_that_is_too_small_is_refused_before_anything_is_written() -> None:
    out = np.zeros(2, np.int64)
    with pytest.raises(InternalError) as error:
        copied(np.arange(3) + 1, out)
    assert out.tolist() == [0, 0]
    told = error.value.parameters["what"]
    assert all(part in told for part in ("copied", "len(out) >= len(rows)", "out (2,)", "rows (3,)"))


def test_a_statement_may_name_constants_of_its_module() -> None:
    with pytest.raises(InternalError):
        copied(np.arange(1), np.zeros(1, np.int64))


def test_results_that_had_no_room_are_an_error() -> None:
    within("rows", 3, 3)
    with pytest.raises(InternalError):
        within("rows", 4, 3)


def test_columns_of_different_lengths_cannot_be_hashed_together() -> None:
    import polars as pl

    with pytest.raises(InternalError):
        stable_hash([pl.Series([1, 2]), pl.Series([1, 2, 3])])


def written(node: ast.FunctionDef) -> set[str]:
    """The parameters that a kernel assigns to elements of."""
    targets = [n for n in ast.walk(node) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    names = {target.value.id for target in targets if isinstance(target.value, ast.Name)}
    return names & {argument.arg for argument in node.args.args}


@pytest.mark.parametrize(
    ("name", "node"),
    [pytest.param(*each, id=each[0]) for each in bounds.kernels()],
)
def test_a_kernel_states_how_large_everything_is_that_it_writes_to(name: str, node: ast.FunctionDef) -> None:
    stated = " ".join(ast.unparse(each) for each in node.decorator_list if isinstance(each, ast.Call))
    named = set(re.findall(r"\w+", stated))
    assert not written(node) - named, "no statement names these"


@pytest.mark.skipif(not bounds.is_wanted(), reason="`python -m tests.bounds` runs this")
@pytest.mark.parametrize("place", [3, -1, -4])
def test_with_bounds_checks_no_index_is_behind_the_end_or_before_the_beginning(place: int) -> None:
    assert last_of(np.arange(3), 2) == 2
    with pytest.raises(IndexError):
        last_of(np.arange(3), place)
