"""Servers that ping each other while some are busy and some paths fail; who was slow why is known.

A ping or a reading is a function of its number alone.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.errors import BadArgument

START = dt.datetime(2026, 1, 5, 9, 0)
PINGS = {"time": dt.datetime, "source": str, "target": str, "rtt_ms": float}
LOADS = {"time": dt.datetime, "server": str, "load": float}
READINGS_PER_S = 2
_EPISODE_S = 20
_BUSY, _FAILED, _LOST = 0.08, 0.02, 0.25
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Servers:
    """Servers that each ping every other once a second and read their load twice a second.

    ``latencies`` is a matrix of usual round trips in ms (text, a row per server, perhaps gzip); without it
    they are made up. In some stretches of 20 seconds a server is busy or a path fails: pings then take more
    than a second, or are never answered.
    """

    count: int = 12
    latencies: str | None = None
    seed: int = 1

    @property
    def pings_per_s(self) -> int:
        """Every ordered pair once."""
        return self.count * (self.count - 1)

    def pings(self, first: int, count: int) -> pl.DataFrame:
        """Pings number first … first+count-1; ``rtt_ms`` is null if there was no answer."""
        number = np.arange(first, first + count)
        second, pair = number // self.pings_per_s, number % self.pings_per_s
        source, target = pair // (self.count - 1), pair % (self.count - 1)
        target = target + (target >= source)
        fate = self._draw(number, 1)
        usual = _usual(self)[source, target] * (0.9 + 0.2 * fate)
        is_slow = self.is_busy(target, second) | self.has_failed(source, target, second)
        rtt = np.where(is_slow, 1000.0 + 2000.0 * fate, usual)
        lost = pl.Series(self.has_failed(source, target, second) & (fate < _LOST))
        made = {"time": _at(number, self.pings_per_s), "source": _name(source), "target": _name(target)}
        return pl.DataFrame({**made, "rtt_ms": pl.Series(rtt).set(lost, None)})

    def loads(self, first: int, count: int) -> pl.DataFrame:
        """Readings number first … first+count-1 of the load, 0 to 1."""
        number = np.arange(first, first + count)
        server, second = number % self.count, number // self.count // READINGS_PER_S
        load = np.where(self.is_busy(server, second), 0.9, 0.2) + 0.1 * self._draw(number, 2)
        per_s = self.count * READINGS_PER_S
        return pl.DataFrame({"time": _at(number, per_s), "server": _name(server), "load": load})

    def is_busy(self, server: Numbers, second: Numbers) -> npt.NDArray[np.bool_]:
        """Whether a server is busy in a second."""
        return self._draw(server + self.count * (second // _EPISODE_S), 3) < _BUSY

    def has_failed(self, source: Numbers, target: Numbers, second: Numbers) -> npt.NDArray[np.bool_]:
        """Whether a path is slow or down in a second."""
        path = source * self.count + target
        return self._draw(path + self.count**2 * (second // _EPISODE_S), 4) < _FAILED

    def _draw(self, number: Numbers, what: int) -> npt.NDArray[np.float64]:
        """Numbers in 0 … 1 that look random and depend on the arguments alone (splitmix64)."""
        x = number.astype(np.uint64) * np.uint64(8) + np.uint64(what + 1000 * self.seed)
        x = x * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@lru_cache(maxsize=4)
def _usual(servers: Servers) -> npt.NDArray[np.float64]:
    """The usual round trip between two servers in ms."""
    count = servers.count
    if servers.latencies is None:
        made: npt.NDArray[np.float64] = 5 + 200 * servers._draw(np.arange(count * count), 5)
        return made.reshape(count, count)
    try:
        matrix = np.loadtxt(servers.latencies, max_rows=count, usecols=range(count), ndmin=2)
    except (OSError, ValueError) as error:
        raise _no_matrix(servers, str(error)) from error
    if matrix.shape != (count, count):
        raise _no_matrix(servers, f"{matrix.shape[0]} rows")
    return matrix


def check(servers: Servers) -> None:
    """Raise BadArgument if the latencies cannot be read."""
    _usual(servers)


def _no_matrix(servers: Servers, fault: str) -> BadArgument:
    allowed = f"a matrix of numbers with at least {servers.count} rows and columns ({fault})"
    got = repr(Path(servers.latencies or "").name)
    return BadArgument(where="slow-paths", what="latencies", got=got, allowed=allowed)


def _at(number: Numbers, per_s: int) -> pl.Series:
    return pl.Series(number * 1_000_000 // per_s).cast(pl.Duration("us")) + START


def _name(server: Numbers) -> pl.Series:
    return pl.select(
        pl.concat_str(pl.lit("server-"), pl.Series(server).cast(pl.String).str.zfill(3))
    ).to_series()
