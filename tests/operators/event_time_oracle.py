"""The operators on event time as plain sequential Python over lists of dicts: what the tests believe.

Written from the paper and the docstrings, not from the operators: no panes, no parts, no punctuation.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

Row = dict[str, Any]
Rows = list[Row]
Key = tuple[Any, ...]


def order(row: Row) -> Key:
    """By time, then by all values; null after every value."""
    return (row["time"], *((row[name] is None, row[name] or 0) for name in row if name != "time"))


def grouped(rows: Rows, names: Iterable[str]) -> dict[Key, Rows]:
    groups: dict[Key, Rows] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def quantile(values: list[int], q: float) -> float | None:
    if not values:
        return None
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def x_of(v: int | None) -> float | None:
    """A float that does not forgive: added up in another order, the rounded sum is another one."""
    return None if v is None else (0.1, 1e16, -1e16, 3.3e-5)[v % 4]


def _floats(values: list[int]) -> list[float]:
    return [x for value in values if (x := x_of(value)) is not None]


def _at(rows: Rows, end: Callable[..., Any]) -> Any:
    moment = end(row["time"] for row in rows)
    return end((row["v"] for row in rows if row["time"] == moment and row["v"] is not None), default=None)


FIGURES: dict[str, Callable[[Rows, list[int]], Any]] = {
    "count": lambda rows, values: len(rows),
    "sum": lambda rows, values: sum(values),
    "min": lambda rows, values: min(values, default=None),
    "max": lambda rows, values: max(values, default=None),
    "mean": lambda rows, values: sum(values) / len(values) if values else None,
    "float_sum": lambda rows, values: math.fsum(_floats(values)),
    "float_mean": lambda rows, values: math.fsum(_floats(values)) / len(values) if values else None,
    "float_variance": lambda rows, values: (
        float(statistics.variance(map(Fraction, _floats(values)))) if len(values) > 1 else None
    ),
    "variance": lambda rows, values: statistics.variance(values) if len(values) > 1 else None,
    "quantile": lambda rows, values: quantile(values, 0.3),
    "distinct": lambda rows, values: len(set(values)),
    "first": lambda rows, values: _at(rows, min),
    "last": lambda rows, values: _at(rows, max),
    "top": lambda rows, values: sorted(values, reverse=True)[:2],
    "fold": lambda rows, values: sum(value * value for value in values),
    "kept_fold": lambda rows, values: sum(value * value for value in values),
}


def figures(rows: Rows, names: Iterable[str]) -> Row:
    values = [row["v"] for row in rows if row["v"] is not None]
    return {name: FIGURES[name](rows, values) for name in names}


def aggregate(rows: Rows, *, by: list[str], length: int, every: int, names: list[str]) -> Rows:
    windows: dict[tuple[Key, int], Rows] = defaultdict(list)
    for row in rows:
        start = row["time"] // every * every
        while start + length > row["time"]:
            windows[tuple(row[name] for name in by), start].append(row)
            start -= every
    return [
        {**dict(zip(by, key, strict=True)), "start": start, "end": start + length, **figures(some, names)}
        for (key, start), some in windows.items()
    ]


def count_aggregate(rows: Rows, *, by: list[str], length: int, every: int, names: list[str]) -> Rows:
    made = []
    for key, group in grouped(rows, by).items():
        ordered = sorted(group, key=order)
        for first in range(0, len(ordered) - length + 1, every):
            some = ordered[first : first + length]
            ends = {"start": some[0]["time"], "end": some[-1]["time"]}
            made.append({**dict(zip(by, key, strict=True)), **ends, **figures(some, names)})
    return made


def join(left: Rows, right: Rows, *, within: int, how: str, matches: Callable[[Row], bool]) -> Rows:
    made, seen_left, seen_right = [], set(), set()
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            times = {"time": max(a["time"], b["time"]), "time_left": a["time"], "time_right": b["time"]}
            pair = {"k": a["k"], **times, "v": a["v"], "v_right": b["v"]}
            if (
                a["k"] is not None
                and a["k"] == b["k"]
                and abs(a["time"] - b["time"]) <= within
                and matches(pair)
            ):
                made.append(pair)
                seen_left.add(i)
                seen_right.add(j)
    for i, a in enumerate(left):
        if how != "inner" and i not in seen_left:
            times = {"time": a["time"] + within, "time_left": a["time"], "time_right": None}
            made.append({"k": a["k"], **times, "v": a["v"], "v_right": None})
    for j, b in enumerate(right):
        if how == "outer" and j not in seen_right:
            times = {"time": b["time"] + within, "time_left": None, "time_right": b["time"]}
            made.append({"k": b["k"], **times, "v": None, "v_right": b["v"]})
    return made


def dedupe(rows: Rows, *, by: list[str], within: int) -> Rows:
    passed: list[Row] = []
    last: dict[Key, int] = {}
    for row in sorted(rows, key=order):
        key = tuple(row[name] for name in by)
        if key not in last or row["time"] - last[key] >= within:
            passed.append(row)
            last[key] = row["time"]
    return passed


def top_k(rows: Rows, *, k: int, group: list[str]) -> Rows:
    """At each moment: all rows so far in order; those of the moment among the first k have entered."""
    made = []
    for some in grouped([row for row in rows if row["v"] is not None], group).values():
        ranked = sorted(some, key=lambda row: (-row["v"], row["time"], order(row)))
        for moment in sorted({row["time"] for row in some}):
            so_far = [row for row in ranked if row["time"] <= moment]
            leaders = enumerate(so_far[:k], 1)
            made += [{**row, "rank": rank} for rank, row in leaders if row["time"] == moment]
    return made


def is_ordered(rows: Rows) -> bool:
    return all(order(a) <= order(b) for a, b in pairwise(rows))
