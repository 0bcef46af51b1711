"""Answers that are ready before they are asked for."""

from __future__ import annotations

import threading

import pytest

from penstock.net.ahead import Ahead


def half(number: int) -> int:
    if number % 2:
        raise ValueError(number)
    return number // 2


def test_an_answer_is_the_functions_own_whether_it_was_begun_or_not() -> None:
    ahead = Ahead()
    ahead.begin(half, 8)
    assert [ahead.ask(half, 8), ahead.ask(half, 8), ahead.ask(half, 6)] == [4, 4, 3]


def test_what_was_begun_is_not_done_again() -> None:
    calls: list[int] = []
    ahead = Ahead()
    ahead.begin(calls.append, 1)
    ahead.ask(calls.append, 1)
    assert calls == [1]


def test_an_error_comes_where_the_answer_is_asked_for() -> None:
    ahead = Ahead()
    ahead.begin(half, 7)
    with pytest.raises(ValueError, match="7"):
        ahead.ask(half, 7)


def test_what_was_forgotten_is_called_anew() -> None:
    calls: list[int] = []
    gate = threading.Event()
    ahead = Ahead()
    ahead.begin(gate.wait)
    ahead.begin(calls.append, 1)
    ahead.forget()
    gate.set()
    ahead.ask(calls.append, 1)
    assert calls == [1]
