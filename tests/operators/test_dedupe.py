"""The first row of a key passes, and the next one a time later."""

from __future__ import annotations

import pytest
from tests.operators.event_time_kit import at, epochs, held, out, patient_rows, rows, started

import penstock as ps
from penstock.errors import BadArgument


def deduping(stream: ps.Stream) -> ps.Stream:
    return stream.dedupe("first", "k", within="10s", parallelism=2)


def test_the_earliest_row_passes_even_if_it_comes_last() -> None:
    run = started(deduping, patient_rows((3, "a", 3), (1, "a", 1), (2, "a", 2)))
    run.drain()
    assert out(run) == [(at(1), "a", 1)]


def test_a_row_passes_again_when_the_time_is_over() -> None:
    run = started(deduping, rows((0, "a", 0), (9, "a", 9), (10, "a", 10), (19, "a", 19), (20, "a", 20)))
    epochs(run, *[1] * 5).drain()
    assert [v for _, _, v in out(run)] == [0, 10, 20]


def test_late_rows_go_to_their_output() -> None:
    run = started(deduping, rows((5, "a", 5), (4, "b", 4), (None, "c", 0)))
    epochs(run, 1).drain()
    assert out(run) == [(at(5), "a", 5)]
    assert out(run, "late") == [(None, "c", 0), (at(4), "b", 4)]


def test_keys_are_forgotten_when_the_time_is_over() -> None:
    run = started(deduping, rows(*((n, f"key{n}", n) for n in range(200))))
    for _ in range(19):
        epochs(run, 10)
        assert held(run) <= 10 + 10 + 1
    run.drain()
    assert held(run) == 0


def test_a_dedupe_by_nothing_is_refused() -> None:
    with pytest.raises(BadArgument):
        ps.Topology("t").source("s", rows()).dedupe("first", (), within="1s")
