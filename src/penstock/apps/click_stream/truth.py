"""What click-stream must find, worked out one request after the other: for tests, not for speed."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.apps.click_stream.names import SEPARATOR
from penstock.apps.click_stream.visits import ASSETS

Request = Mapping[str, Any]
_EPOCH = dt.datetime(1970, 1, 1)


def sequences(
    requests: Iterable[Request], *, length: int, away: dt.timedelta
) -> Iterator[tuple[dt.datetime, str]]:
    """When each pattern was completed, of requests in the order of the log."""
    walks: dict[Any, list[str]] = {}
    seen: dict[Any, dt.datetime] = {}
    for request in sorted(requests, key=lambda request: request["time"]):  # stable: ties stay as logged
        if (
            request["method"] != "GET"
            or not 200 <= request["status"] < 400
            or re.search(ASSETS, request["path"])
        ):
            continue
        user, now, page = (request["host"], request["agent"]), request["time"], request["path"]
        if user not in seen or now - seen[user] > away:
            walks[user] = []
        seen[user] = now
        if walks[user][-1:] != [page]:
            walks[user].append(page)
            if len(walks[user]) >= length:
                yield now, SEPARATOR.join(walks[user][-length:])


def trends(
    found: Iterable[tuple[dt.datetime, str]], *, window: dt.timedelta, every: dt.timedelta, top: int
) -> list[tuple[dt.datetime, int, str, int, int | None]]:
    """End of the window, rank, pattern, visits and the rank in the window before, in this order."""
    windows: dict[dt.datetime, Counter[str]] = defaultdict(Counter)
    for at, pattern in found:
        start = _EPOCH + (at - _EPOCH) // every * every
        while start + window > at:
            windows[start + window][pattern] += 1
            start -= every
    rows, before = [], dict[str, int]()
    for end in sorted(windows):
        leaders = sorted(windows[end].items(), key=lambda item: (-item[1], item[0]))[:top]
        ranks = {pattern: rank for rank, (pattern, _) in enumerate(leaders, 1)}
        rows += [(end, ranks[pattern], pattern, visits, before.get(pattern)) for pattern, visits in leaders]
        before = ranks
    return rows
