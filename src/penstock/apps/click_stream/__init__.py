"""Click streams: which ways users take through a web site, and how that changes from minute to minute.

The application of StreamMine3G: requests of each user, a sliding window over them, patterns, top k.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import penstock as ps
from penstock.apps.click_stream.following import Following, Matches, Sequences
from penstock.apps.click_stream.generated import COLUMNS, LATENESS, Site
from penstock.apps.click_stream.names import NAMES
from penstock.apps.click_stream.totals import MethodTotals
from penstock.apps.click_stream.trends import Strongest, Trends
from penstock.apps.click_stream.visits import ASSETS, NEEDED, WITH_COOKIE, Visits, by_method
from penstock.apps.click_stream.wanted import Wanted
from penstock.connect.durations import microseconds
from penstock.connect.source import Source
from penstock.control.live_table import LiveTable
from penstock.errors import BadArgument
from penstock.operators.windows import TimeWindow

LIVE = LiveTable(
    title="ways through the site, and their rank in the window before",
    sink="trends",
    key=("rank",),
    columns=("rank", "visits", "trend", "pattern"),
    order_by="visits",
    needs=("pattern",),
)
EPOCH_BYTES = 512 << 20


def topology(
    logs: Path | str | None = None,
    *,
    stdin: bool = False,
    directory: Path | str = "out/click-stream",
    length: int = 3,
    patterns: str | None = None,
    window: str = "10m",
    slide: str = "1m",
    top: int = 10,
    away: str = "30m",
    cookie: str | None = None,
    skip: str = ASSETS,
    lateness: str = "1m",
    rows: int = 3_000_000,
    rate: int = 100_000,
    bytes_per_epoch: int = EPOCH_BYTES,
) -> ps.Topology:
    """Access logs (a file, folder or pattern; standard input; or a made-up site) to trends and totals.

    ``length`` pages in a row are a pattern, unless ``patterns`` names them. The ``top`` patterns are told
    each ``slide``, of the ``window`` before. A user who was ``away`` begins a new session. ``cookie``
    names the one that tells users apart. ``rows`` and ``rate`` are for the made-up site.
    """
    if logs is not None and stdin:
        raise _wrong(
            "the input", f"{logs!s} and --stdin", "a path, or --stdin, or neither for a made-up site"
        )
    if not 2 <= length <= 8:
        raise _wrong("length", length, "2 to 8 pages")
    if top < 1:
        raise _wrong("top", top, "1 or more")
    flow = ps.Topology("click-stream")
    source = _source(logs, NEEDED if cookie is None else WITH_COOKIE, lateness, rows, rate, stdin=stdin)
    is_made_up = isinstance(source, ps.Generator)
    requests = flow.source(
        "requests",
        source,
        rows_per_epoch=rate if is_made_up else None,
        bytes_per_epoch=None if is_made_up else bytes_per_epoch,
    )
    totals = requests.flat_map("by-method", by_method).key_by("method")
    summed = totals.process("totals", MethodTotals(), parallelism=1, on_error="dead-letter")
    summed.sink("methods", ps.Delta(f"{directory}/methods"))
    sliding = ps.sliding(length=window, every=slide)
    visits = requests.flat_map("visits", Visits(cookie, skip))
    follow = _following(length, patterns, away, sliding)
    following = visits.key_by("user").process("patterns", follow, parallelism=24)
    following.output("late").sink("late-visits", ps.Delta(f"{directory}/late"))
    steps: dict[str, Any] = {
        f"step_{i}": ps.max(f"step_{i}") for i in range(follow.steps)
    }  # equal in all rows of a pattern
    counts = following.aggregate(
        "counts",
        by="pattern",
        window=sliding,
        visits=ps.sum("visits"),
        **steps,
        parallelism=24,
    )
    strongest = counts.flat_map("strongest", Strongest(top)).to_one()
    names = following.output(NAMES).to_one()
    ranks = strongest.process("ranks", Trends(top, follow.steps, sliding.length_us), also={NAMES: names})
    ranks.sink("trends", ps.Delta(f"{directory}/trends"))
    return flow


def _source(
    logs: Path | str | None, columns: dict[str, str], lateness: str, rows: int, rate: int, *, stdin: bool
) -> Source:
    if stdin:
        return ps.Stdin(format="access-log", schema=columns, time="time", lateness=lateness)
    if logs is not None:
        return ps.Files(
            logs, format="access-log", schema=columns, time="time", lateness=lateness, ends="drained"
        )
    site = Site()
    return ps.Generator(
        site.requests,
        schema=COLUMNS,
        rows=rows,
        rate=rate,
        time="time",
        time_of=site.time_of,
        lateness=LATENESS,
    )


def _following(length: int, patterns: str | None, away: str, window: TimeWindow) -> Following:
    away_us = microseconds(away, where="click-stream", what="away")
    if away_us < 1:
        raise _wrong("away", repr(away), "more than 0")
    if patterns is None:
        return Sequences(away_us, window.pane_us, length)
    return Matches(away_us, window.pane_us, Wanted.of(patterns))


def _wrong(what: str, got: object, allowed: str) -> BadArgument:
    return BadArgument(where="click-stream", what=what, got=got, allowed=allowed)


__all__ = ["LIVE", "Site", "topology"]
