from __future__ import annotations

from datetime import datetime
from pathlib import Path

import cloudpickle
import polars as pl
import pytest

import penstock as ps
from penstock.connect.generator import Generator, GeneratorPlanner
from penstock.connect.source import END_OF_TIME, Limit
from penstock.errors import BadArgument
from penstock.plan import plan
from penstock.testing.sources import check_source


def numbers(first: int, count: int) -> pl.DataFrame:
    return pl.DataFrame({"n": pl.arange(first, first + count, eager=True)})


def _of(**options: object) -> Generator:
    return Generator(numbers, schema={"n": int}, **options)  # type: ignore[arg-type]


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns


@pytest.mark.parametrize("total", [0, 1, 50])
def test_generator_conforms(total: int, tmp_path: Path) -> None:
    rows = check_source(lambda: _of(rows=total, start=5), tmp_path)
    assert rows["n"].to_list() == list(range(5, 5 + total))


def test_endless_generator_takes_a_million_rows_at_a_time(tmp_path: Path) -> None:
    planner = _of().planner(tmp_path)
    assert planner.latest(planner.initial(), Limit())["n"] == 1 << 20
    assert planner.latest(planner.initial(), Limit(rows=3_000_000))["n"] == 3_000_000
    assert planner.latest(planner.initial(), Limit(bytes=800))["n"] == 100
    assert not planner.finished({"n": 10**12, "began_ns": 0})


def test_rate_releases_events_as_time_passes(tmp_path: Path) -> None:
    clock = Clock()
    planner = GeneratorPlanner(_of(rate=10), clock)
    first = planner.latest(planner.initial(), Limit())
    assert first["n"] == 1
    assert planner.latest(first, Limit()) == first
    clock.now_ns += 2_000_000_000
    assert planner.latest(first, Limit())["n"] == 21
    assert planner.latest(first, Limit(rows=5))["n"] == 6
    assert planner.backlog(first).rows == 20


def test_rate_goes_on_after_a_restart_from_where_the_offset_says() -> None:
    clock = Clock()
    first = GeneratorPlanner(_of(rate=10, rows=25), clock).latest({"n": 0, "began_ns": 0}, Limit())
    clock.now_ns += 60_000_000_000
    planner = GeneratorPlanner(_of(rate=10, rows=25), clock)
    end = planner.latest(first, Limit())
    assert end["n"] == 25
    assert planner.finished(end)
    assert planner.latest(end, Limit()) == end


def test_punctuation_is_exact_with_time_of_and_trails_without() -> None:
    exact = GeneratorPlanner(_of(time="n", time_of=lambda n: n * 1000, rows=10))
    assert exact.punctuation({"n": 4, "began_ns": 0}, None) == 4000
    assert exact.punctuation({"n": 10, "began_ns": 0}, None) == END_OF_TIME
    dated = GeneratorPlanner(_of(time="n", time_of=lambda n: datetime(1970, 1, 1, 0, 0, n)))
    assert dated.punctuation({"n": 4, "began_ns": 0}, None) == 4_000_000
    trailing = GeneratorPlanner(_of(time="n", lateness="2ms"))
    assert trailing.punctuation({"n": 4, "began_ns": 0}, None) is None
    assert trailing.punctuation({"n": 4, "began_ns": 0}, 10_000) == 8_000
    assert GeneratorPlanner(_of()).punctuation({"n": 4, "began_ns": 0}, 10_000) is None


def test_generator_travels_with_cloudpickle() -> None:
    source = cloudpickle.loads(
        cloudpickle.dumps(Generator(lambda a, b: numbers(a, b), schema={"n": int}, rows=3))
    )
    split = source.planner(Path()).splits({"n": 0, "began_ns": 0}, {"n": 3, "began_ns": 0}, 1)[0]
    assert next(source.read(split, print)).rows["n"].to_list() == [0, 1, 2]


@pytest.mark.parametrize(
    "made", [pl.DataFrame({"n": [1]}), pl.DataFrame({"m": [1, 2]}), pl.DataFrame({"n": ["a", "b"]})]
)
def test_function_that_makes_something_else_is_named(made: pl.DataFrame, tmp_path: Path) -> None:
    source = Generator(lambda first, count: made, schema={"n": int})
    split = source.planner(tmp_path).splits({"n": 7, "began_ns": 0}, {"n": 9, "began_ns": 0}, 1)[0]
    with pytest.raises(BadArgument) as caught:
        list(source.read(split, print))
    assert "fn(7, 2)" in caught.value.parameters["what"]


@pytest.mark.parametrize(
    "options", [{"rows": -1}, {"rate": 0}, {"time": "x"}, {"start": -1}, {"lateness": "soon"}]
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadArgument):
        _of(**options)


def test_without_limits_an_epoch_of_a_large_generator_is_bounded_by_bytes() -> None:
    def wide(first: int, count: int) -> pl.DataFrame:
        return pl.DataFrame({"n": range(first, first + count), "text": ["x" * 1000] * count})

    top = ps.Topology("t")
    source = Generator(wide, schema={"n": int, "text": str}, rows=10**9)
    top.source("wide", source).sink("out", ps.Collect())
    spec = plan(top).sources["wide"]
    planner = source.planner(Path())
    end = planner.latest(planner.initial(), Limit(*spec.limits))
    assert end["n"] * 1008 == pytest.approx(256 << 20, rel=0.05)


def test_a_function_that_fails_does_not_fail_while_an_epoch_is_planned() -> None:
    def fails(first: int, count: int) -> pl.DataFrame:
        raise ZeroDivisionError

    planner = Generator(fails, schema={"text": str}, rows=10).planner(Path())
    assert planner.latest(planner.initial(), Limit(bytes=1 << 20))["n"] == 10
