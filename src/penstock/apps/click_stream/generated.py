"""A web site's access log that is made up: users walk from page to page, and what they like changes.

Request number *n* is a function of *n* alone, as columns (``requests``) or as text (``write_log``).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from penstock.apps.click_stream.visits import WITH_COOKIE
from penstock.frames._jit import Column, bounded, kernel, step
from penstock.frames._kernels import mix
from penstock.frames.hashing import stable_hash

START = dt.datetime(2026, 1, 5, 8, 0)
LATENESS = dt.timedelta(seconds=3)
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML) Chrome/140.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1",
)
COLUMNS = {**WITH_COOKIE, "host": "string", "agent": "string"}
_SHOPS = ("books", "music", "garden", "toys", "tools", "food")
PAGES = ("/", "/search", "/cart", "/pay", "/paid", *(f"/{shop}/{i}" for shop in _SHOPS for i in range(20)))
SCRIPT = "/static/site.js"
_LINKS = 4
_LANES = 4096
_BATCH = 1 << 18


@dataclass(frozen=True)
class Site:
    """A log with ``rate`` requests per second of event time, the same for the same ``seed``."""

    rate: float = 2_000.0
    seed: int = 1

    def requests(self, first: int, count: int) -> pl.DataFrame:
        """Requests number first … first+count-1 in ``COLUMNS`` of an access log."""
        steps = self.steps(first, count)
        number = steps["visitor"]
        host = pl.select(
            pl.concat_str(
                pl.lit("10."),
                number // 65536 % 256,
                pl.lit("."),
                number // 256 % 256,
                pl.lit("."),
                number % 256,
            )
        ).to_series()
        agent = pl.Series(AGENTS).gather(number % len(AGENTS))
        return pl.DataFrame(
            {
                "time": steps["time"],
                "status": steps["status"].cast(pl.Int32),
                "bytes": steps["bytes"],
                "host": host,
                "method": pl.repeat("GET", count, eager=True),
                "path": pl.Series((*PAGES, SCRIPT)).gather(steps["page"]),
                "agent": agent,
                "visitor": stable_hash([host, agent]),
                "cookie": pl.select(pl.concat_str(pl.lit("id="), number, pl.lit("; theme=dark"))).to_series(),
            }
        )

    def steps(self, first: int, count: int) -> pl.DataFrame:
        """The same requests as numbers; ``page`` is a place in ``PAGES``, the script comes after them."""
        made = np.empty((5, count), np.int64)
        walk(first, self.rate, self.seed, len(PAGES), made)
        steps = pl.DataFrame(list(made), schema=["time", "visitor", "page", "status", "bytes"])
        return steps.with_columns(time=START + pl.col("time").cast(pl.Duration("us")))

    def time_of(self, n: int) -> dt.datetime:
        """No request from number n on is earlier than this, less ``LATENESS``."""
        return START + dt.timedelta(seconds=int(n / self.rate))

    def lines(self, first: int, count: int) -> pl.Series:
        """The same requests as lines in the combined format with a cookie."""
        rows = self.requests(first, count)
        moments = rows["time"].unique()
        told = pl.DataFrame({"time": moments, "told": moments.dt.strftime("%d/%b/%Y:%H:%M:%S +0000")})
        rows = rows.join(told, on="time", how="left", maintain_order="left")
        words = (
            pl.col("host"), pl.lit(" - - ["), pl.col("told"), pl.lit('] "GET '), pl.col("path"),
            pl.lit(' HTTP/1.1" '), pl.col("status"), pl.lit(" "), pl.col("bytes"), pl.lit(' "-" "'),
            pl.col("agent"), pl.lit('" "'), pl.col("cookie"), pl.lit('"'),
        )  # fmt: skip
        return rows.select(line=pl.concat_str(*words)).to_series()

    def write_log(self, path: Path, first: int, count: int) -> None:
        """Requests number first … first+count-1 as a log file."""
        with open(path, "wb") as file:
            for begin in range(first, first + count, _BATCH):
                lines = self.lines(begin, min(_BATCH, first + count - begin))
                lines.to_frame().write_csv(file, include_header=False, quote_style="never")


@step
def _draw(seed: int, a: int, b: int) -> float:
    """A number in 0 … 1 that looks random and depends on the arguments alone."""
    bits = mix(mix(np.uint64(seed) + np.uint64(a)) + np.uint64(b))
    return np.float64(bits >> np.uint64(11)) * 2.0**-53


@step
def _next_page(page: int, pages: int, season: int, seed: int, draw: float) -> int:
    """One of the page's links; the first ones are followed more often, and seasons change the first."""
    link = int(draw * draw * _LINKS)
    if link == 0:
        return int(_draw(seed, page, 1000 + season) ** 2 * pages)
    return int(_draw(seed, page, link) ** 2 * pages)


@bounded("out.shape[0] == 5")
@kernel
def walk(first: int, rate: float, seed: int, pages: int, out: Column) -> None:
    """Time in µs since the start, visitor, page, status and bytes of each request.

    Requests are dealt out over lanes; in each, one visitor after the other walks through the site.
    """
    for i in range(out.shape[1]):
        n = first + i
        lane, turn = n % _LANES, n // _LANES
        steps = 3 + int(_draw(seed, lane, -1) * 10)
        session, stop = turn // steps, turn % steps
        person = lane + _LANES * session
        season = int(n / rate) // 120
        page = int(_draw(seed, person, 0) ** 3 * 40)
        for turns in range(stop):
            page = _next_page(page, pages, season, seed, _draw(seed, person, 1 + turns))
        chance = _draw(seed, n, -2)
        second = int(n / rate) - (int(chance * 1000) % 4 if n / rate >= 3 else 0)
        out[0, i] = second * 1_000_000
        out[1, i] = int(_draw(seed, person, -3) * 1_000_000)
        out[2, i] = pages if chance < 0.2 else page  # a script that belongs to the page
        out[3, i] = 404 if chance > 0.99 else 304 if chance > 0.95 else 200
        out[4, i] = 500 + int(chance * 20_000)
