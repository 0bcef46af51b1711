"""Rows leave in the order of their time, and none waits longer than it must."""

from __future__ import annotations

from tests.operators.event_time_kit import at, epochs, held, out, rows, started

import penstock as ps


def ordering(stream: ps.Stream) -> ps.Stream:
    return stream.restore_order("order")


def test_rows_leave_in_order_across_epochs_and_sources() -> None:
    def build(a: ps.Stream, b: ps.Stream) -> ps.Stream:
        return ordering(a.union("both", b))

    run = started(
        build, rows((1, "a", 0), (3, "a", 0), (5, "a", 0)), rows((2, "b", 0), (4, "b", 0), (6, "b", 0))
    )
    epochs(run, 1, 1, 1).drain()
    assert run.result()["to-out"]["time"].to_list() == [at(n) for n in range(1, 7)]


def test_a_row_is_held_until_the_punctuation_passes_it() -> None:
    run = started(ordering, rows((1, "a", 0), (2, "a", 0), (2, "b", 0), (3, "a", 0)))
    epochs(run, 2)
    assert out(run) == [(at(1), "a", 0)]
    assert held(run) == 1
    run.drain()
    assert len(out(run)) == 4
    assert held(run) == 0


def test_a_row_that_breaks_the_promise_is_late() -> None:
    run = started(ordering, rows((5, "a", 0), (1, "a", 1)))
    epochs(run, 1).drain()
    assert out(run, "late") == [(at(1), "a", 1)]
