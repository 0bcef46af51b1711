"""The reference says what the code says."""

from __future__ import annotations

import pytest
from tests.docs.reference import FOLDER, pages

from penstock import errors

PAGES = pages()


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in FOLDER.iterdir()} == PAGES.keys()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_docstrings_have_it(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name], "run `make reference`"


def test_every_error_that_can_be_met_is_told() -> None:
    conditions = {
        value.condition
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.PenstockError) and "condition" in vars(value)
    }
    assert all(f"`{condition}`" in PAGES["errors.md"] for condition in conditions - {"PENSTOCK"})
