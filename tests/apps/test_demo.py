"""The demo gives the right answer, however its epochs are cut."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

from penstock.apps import demo
from penstock.testing import run

pytestmark = pytest.mark.long

ROWS = 60_000


@pytest.fixture(scope="module", autouse=True)
def _a_small_shop() -> Iterator[None]:
    """Few customers, so that most have ordered before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "CUSTOMERS", 500)
        yield


@pytest.fixture(scope="module")
def orders() -> pl.DataFrame:
    return demo.make_clicks(0, ROWS).filter(pl.col("action") == "order")


@pytest.fixture(scope="module")
def results() -> dict[str, pl.DataFrame]:
    return run(demo.topology(rows=ROWS, rate=None), rows_per_epoch=25_000)


def test_a_click_depends_on_its_number_alone() -> None:
    assert demo.make_clicks(50, 20).equals(demo.make_clicks(0, 100)[50:70])


def test_totals_per_region_are_those_of_all_orders(
    orders: pl.DataFrame, results: dict[str, pl.DataFrame]
) -> None:
    expected = orders.group_by("region").agg(orders=pl.len().cast(pl.Int64), revenue=pl.col("cents").sum())
    last = results["totals"].sort("orders").unique("region", keep="last").select(expected.columns)
    assert last.sort("region").equals(expected.sort("region"))


def test_an_unusual_order_is_compared_with_the_earlier_ones(
    orders: pl.DataFrame, results: dict[str, pl.DataFrame]
) -> None:
    earlier = pl.col("cents").shift(1).over("customer").fill_null(0).cum_sum().over("customer")
    number = pl.int_range(pl.len()).over("customer")
    scored = orders.with_columns(score=pl.col("cents") / (earlier / number))
    expected = scored.filter(number > 0).filter(pl.col("score") >= demo.UNUSUAL)
    assert expected.height > 0
    assert set(results["unusual"]["order"]) == set(expected["order"])


def test_the_cut_of_the_epochs_does_not_show(results: dict[str, pl.DataFrame]) -> None:
    whole = run(demo.topology(rows=ROWS, rate=None), seed=1)
    assert whole["unusual"].sort("order").equals(results["unusual"].sort("order"))
