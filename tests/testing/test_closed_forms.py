"""The closed forms of the chaos checks agree with the reference engine and see every kind of fault."""

from __future__ import annotations

import ast
from pathlib import Path

import polars as pl
import pytest

from penstock.testing import Epoch, ReferenceRun, chaos
from penstock.testing.chaos import closed_forms
from penstock.testing.chaos.families import events

CHECKS = {check.name: check for check in chaos.FAMILIES}
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, pl.DataFrame]]:
    """What the reference engine gives for each check, with the changes that the check has."""
    found = {}
    for name, check in CHECKS.items():
        folder = tmp_path_factory.mktemp(name)
        run = ReferenceRun(check.build(folder), hops=check.options.get("hops"))
        for part in range(1, check.feeds + 1):
            assert check.feed is not None
            check.feed(folder, part)
        for change in check.changes:
            run.step(Epoch(90))
            run.change(change(folder))
        run.drain(Epoch(170))
        found[name] = run.result()
    return found


def verdict(name: str, sinks: dict[str, pl.DataFrame]) -> str:
    judge = CHECKS[name].closed_form
    assert judge is not None
    return judge(sinks)


@pytest.mark.parametrize("name", CHECKS)
def test_a_right_answer_is_right(name: str, results: dict[str, dict[str, pl.DataFrame]]) -> None:
    assert verdict(name, results[name]) == ""


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("fault", ["doubled", "lost", "wrong"])
def test_a_row_that_is_doubled_lost_or_wrong_is_seen(
    name: str, fault: str, results: dict[str, dict[str, pl.DataFrame]]
) -> None:
    """The last row: of running totals only the last one of a key must be there."""
    for sink, rows in results[name].items():
        number = next(column for column, kind in rows.schema.items() if kind.is_integer())
        last = rows.sort(number)[-1:]
        others = rows.join(last, on=rows.columns, how="anti", nulls_equal=True)
        changed = {
            "doubled": pl.concat([rows, last]),
            "lost": others,
            "wrong": pl.concat([others, last.with_columns(pl.col(number) + 1)]),
        }[fault]
        assert verdict(name, {**results[name], sink: changed}) != "", sink


def test_an_event_is_the_same_in_the_formula_and_in_the_generator() -> None:
    for n, row in enumerate(events(0, 300).iter_rows(named=True)):
        event = closed_forms.event(n)
        assert row == {"n": n, "key": event.key, "amount": event.amount, "time": event.time}


def test_the_closed_forms_use_nothing_of_what_they_check() -> None:
    tree = ast.parse(Path(closed_forms.__file__).read_text())
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert not [name for name in imported if name.startswith("penstock")]
