"""Walks through a capture for the next epoch while the present one is worked on.

To find where an epoch ends, and where its splits begin, a planner goes from record to record. For an epoch of
a gigabyte that takes most of a second in which all cores wait.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class Ahead:
    """Has answers of pure functions ready before they are asked for; each is given once."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._answers: dict[Hashable, Future[Any]] = {}

    def begin(self, function: Callable[..., Any], *arguments: Hashable) -> Future[Any]:
        """Call a function in the background."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="penstock-ahead")
        future = self._pool.submit(function, *arguments)
        self._answers[function, arguments] = future
        return future

    def forget(self) -> None:
        """Nobody will ask for what was begun so far."""
        answers, self._answers = self._answers, {}  # a thread may add to what is looked through
        for future in list(answers.values()):
            future.cancel()

    def ask(self, function: Callable[..., T], *arguments: Hashable) -> T:
        """What a function answers, at once if it was begun in time."""
        future = self._answers.pop((function, arguments), None)
        if future is None or future.cancelled():
            return function(*arguments)
        answer: T = future.result()
        return answer
