"""Addresses as text, and text as addresses."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_MAPPED = 0xFFFF


def ip_text(high: pl.Series, low: pl.Series) -> pl.Series:
    """Addresses from their two halves, as people write them. Each distinct address is formatted once.

    >>> import polars as pl
    >>> halves = [pl.Series([int(half)], dtype=pl.UInt64) for half in ip_halves("10.1.2.3")]
    >>> ip_text(*halves).to_list()
    ['10.1.2.3']
    """
    import polars as pl

    pairs = pl.DataFrame({"high": high, "low": low})
    known = pairs.unique()
    text = [_text(a, b) for a, b in known.iter_rows()]
    known = known.with_columns(pl.Series("text", text, dtype=pl.String))
    return pairs.join(known, on=["high", "low"], how="left", nulls_equal=True, maintain_order="left")["text"]


def ip_halves(address: str) -> tuple[int, int]:
    """The two halves of an address; IPv4 is written as ::ffff:a.b.c.d.

    >>> ip_halves("::1"), ip_halves("1.2.3.4")[1] == 0xFFFF01020304
    ((0, 1), True)
    """
    number = int(ipaddress.ip_address(address))
    if ":" not in address:
        number |= _MAPPED << 32
    return number >> 64, number & (1 << 64) - 1


def _text(high: int | None, low: int | None) -> str | None:
    if high is None or low is None or (high == 0 and low == 0):
        return None
    if high == 0 and low >> 32 == _MAPPED:
        return str(ipaddress.IPv4Address(low & 0xFFFF_FFFF))
    return str(ipaddress.IPv6Address(high << 64 | low))
