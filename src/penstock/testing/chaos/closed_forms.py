"""What each family must give, from the formula of its events alone.

The reference engine shares planners, operators and the state log with the engine on Spark, so a fault in them
is a fault in both. Nothing here imports them: events are numbers, and answers are loops over these numbers.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import polars as pl

Sinks: TypeAlias = Mapping[str, pl.DataFrame]
"""The rows of each sink, each as often as the sink shows it."""
ClosedForm: TypeAlias = Callable[[Sinks], str]
"""Returns what is amiss in the rows of the sinks; nothing if they are right."""

KEYS = 61
START = dt.datetime(2026, 1, 1)
_SECOND_US = 1_000_000


class Event(NamedTuple):
    """One event, by its number."""

    n: int
    key: str
    amount: float
    time_us: int
    """Since the start."""

    @property
    def time(self) -> dt.datetime:
        return START + dt.timedelta(microseconds=self.time_us)


def event(n: int) -> Event:
    """Return event number ``n``: ten a second, every third one two seconds late, keys in turn."""
    late_us = 2 * _SECOND_US if n % 3 == 0 else 0
    return Event(n, f"key-{n * 7919 % KEYS}", (n % 97) / 4, n * 100_000 - late_us)


def stateless(rows: int) -> ClosedForm:
    """Every row whose number is no multiple of seven, twice, with its amount doubled."""
    expected = Counter({(n, event(n).amount * 2): 2 for n in range(rows) if n % 7})
    return lambda sinks: _same("table", expected, Counter(sinks["table"].select("n", "twice").iter_rows()))


def running_totals(rows: int, *names: str, factors: Sequence[float] = (1.0,)) -> ClosedForm:
    """Each key's count and sum so far, each state of it once at most, and the last one."""
    amounts: dict[str, list[float]] = defaultdict(list)
    for n in range(rows):
        amounts[event(n).key].append(event(n).amount)

    def judge(sinks: Sinks) -> str:
        return "; ".join(filter(None, (_judge_totals(name, sinks[name], amounts, factors) for name in names)))

    return judge


def _judge_totals(
    name: str, rows: pl.DataFrame, amounts: Mapping[str, list[float]], factors: Sequence[float]
) -> str:
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    for key, events, total in rows.select("key", "events", "total").iter_rows():
        seen[key][events] += 1
        so_far = sum(amounts.get(key, [])[:events])  # quarters: sums of floats are exact
        if not min(factors) * so_far <= total <= max(factors) * so_far:
            return f"{name}: {key} has {total} after {events} events instead of {so_far}"
    for key, values in amounts.items():
        if max(seen[key], default=0) != len(values):
            return f"{name}: {key} ends at {max(seen[key], default=0)} of {len(values)} events"
        if most := [events for events, times in seen[key].items() if times > 1]:
            return f"{name}: {key} is there more than once after {most[0]} events"
    strangers = seen.keys() - amounts.keys()
    return f"{name}: nobody sent {min(strangers)}" if strangers else ""


def counted_by_letter(rows: int) -> ClosedForm:
    """The rows of each last letter, counted behind a stateful node that passes every row once."""
    amounts: dict[str, list[float]] = defaultdict(list)
    for n in range(rows):
        amounts[event(n).key[-1]].append(event(n).amount)

    def judge(sinks: Sinks) -> str:
        found = {
            key: (events, total)
            for key, events, total in sinks["table"]
            .sort("events")
            .select("key", "events", "total")
            .iter_rows()
        }
        twice = Counter(sinks["table"].select("key", "events").iter_rows()).most_common(1)
        if twice and twice[0][1] > 1:
            return f"table: {twice[0][0]} is there more than once"
        return _equal("table", {key: (len(a), sum(a)) for key, a in amounts.items()}, found)

    return judge


def windows(rows: int) -> ClosedForm:
    """Count and sum per key in windows of 20 s; count in windows of 40 s that begin every 10 s."""
    tumbling: dict[tuple[str, dt.datetime], tuple[int, int]] = {}
    sliding: Counter[dt.datetime] = Counter()
    for e in map(event, range(rows)):
        start = START + dt.timedelta(seconds=e.time_us // (20 * _SECOND_US) * 20)
        count, amount = tumbling.get((e.key, start), (0, 0))
        tumbling[e.key, start] = (count + 1, amount + e.n)
        last = e.time_us // (10 * _SECOND_US) * 10
        for begin in range(last - 30, last + 1, 10):
            sliding[START + dt.timedelta(seconds=begin)] += 1
    wanted = Counter((key, start, *figures) for (key, start), figures in tumbling.items())

    def judge(sinks: Sinks) -> str:
        got = Counter(sinks["tumbling"].select("key", "start", "rows", "amount").iter_rows())
        wide = Counter(sinks["sliding"].select("start", "rows").iter_rows())
        return _same("tumbling", wanted, got) or _same("sliding", Counter(sliding.items()), wide)

    return judge


def pairs(rows: int, others: int, *, within_s: int) -> ClosedForm:
    """The pairs of equal keys that lie so close, found by looking at all of them."""
    by_key: dict[str, list[Event]] = defaultdict(list)
    for e in map(event, range(others)):
        by_key[e.key].append(e)
    expected = Counter(
        (e.n, other.n)
        for e in map(event, range(rows))
        for other in by_key[e.key]
        if abs(e.time_us - other.time_us) <= within_s * _SECOND_US
    )
    return lambda sinks: _same("table", expected, Counter(sinks["table"].select("n", "other").iter_rows()))


def firsts(rows: int, *, within_s: int) -> ClosedForm:
    """By time: the events whose key has not been passed on for so long."""
    passed: dict[str, int] = {}
    expected: Counter[tuple[int]] = Counter()
    for e in sorted(map(event, range(rows)), key=lambda e: (e.time_us, e.n)):
        if e.key not in passed or e.time_us - passed[e.key] >= within_s * _SECOND_US:
            passed[e.key] = e.time_us
            expected[(e.n,)] += 1
    return lambda sinks: _same("table", expected, Counter(sinks["table"].select("n").iter_rows()))


def leaders(rows: int, *, k: int) -> ClosedForm:
    """By time: the events that come among the k greatest of their key so far, with their rank."""
    best: dict[str, list[float]] = defaultdict(list)
    expected: Counter[tuple[int, int]] = Counter()
    for e in sorted(map(event, range(rows)), key=lambda e: (e.time_us, -e.amount, e.n)):
        rank = 1 + sum(amount >= e.amount for amount in best[e.key])
        if rank <= k:
            expected[e.n, rank] += 1
            best[e.key] = sorted([*best[e.key], e.amount], reverse=True)[:k]
    return lambda sinks: _same("table", expected, Counter(sinks["table"].select("n", "rank").iter_rows()))


def seen_by_all(rows: int, *, instances: int) -> ClosedForm:
    """Each instance of a broadcast has the same rows after the same batches, and all of them at the end."""
    sums = {0: 0.0}
    for e in map(event, range(rows)):
        sums[e.n + 1] = sums[e.n] + e.amount

    def judge(sinks: Sinks) -> str:
        found = Counter(sinks["table"].select("rows", "amount").iter_rows())
        for (count, amount), times in found.items():
            if times != instances or amount != sums.get(count):
                return f"table: {times} instances have {amount} after {count} rows, not {sums.get(count)}"
        return "" if (rows, sums[rows]) in found else f"table: no instance has all {rows} rows"

    return judge


def numbered(rows: int) -> ClosedForm:
    """Each row of a key with a number of its own: state that is lost or revived by a change repeats some."""
    expected: Counter[tuple[str, int]] = Counter()
    of_key: Counter[str] = Counter()
    for n in range(rows):
        of_key[event(n).key] += 1
        expected[event(n).key, of_key[event(n).key]] += 1
    return lambda sinks: _same("table", expected, Counter(sinks["table"].select("key", "number").iter_rows()))


def _same(name: str, expected: Counter[Any], got: Counter[Any]) -> str:
    """Compare two multisets and name the first rows that differ."""
    missing, extra = expected - got, got - expected
    told = [_first("misses", missing), _first("has too many", extra)]
    return f"{name} {' and '.join(filter(None, told))}" if missing or extra else ""


def _equal(name: str, expected: Mapping[Any, Any], got: Mapping[Any, Any]) -> str:
    return _same(name, Counter(expected.items()), Counter(got.items()))


def _first(what: str, rows: Counter[Any]) -> str:
    return f"{what} {rows.total()} rows, {_least(rows)} for one" if rows else ""


def _least(rows: Iterable[Any]) -> Any:
    return min(rows, key=repr)
