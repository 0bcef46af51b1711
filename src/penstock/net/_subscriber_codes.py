"""Digits as numbers that keep leading zeros: a 1 stands before them, and 0 means none."""

from __future__ import annotations

import polars as pl

from penstock.net._gtp_ies import LOCATIONS

_KINDS = dict(enumerate(LOCATIONS))
_NUMBERS = {kind: number for number, kind in _KINDS.items()}


def digits_code(column: str) -> pl.Expr:
    """Digits to a number; up to 18 of them."""
    return (pl.lit("1") + pl.col(column)).cast(pl.UInt64, strict=False).fill_null(0)


def digits_text(column: str) -> pl.Expr:
    """A number back to digits."""
    return pl.when(pl.col(column) > 0).then(pl.col(column).cast(pl.String).str.slice(1)).alias(column)


def network_code(mcc: str = "mcc", mnc: str = "mnc") -> pl.Expr:
    """Country and network to one number."""
    return (pl.lit("1") + pl.col(mcc) + pl.col(mnc)).cast(pl.UInt32, strict=False).fill_null(0)


def network_texts(column: str) -> list[pl.Expr]:
    """A number back to the columns ``mcc`` and ``mnc``."""
    text, known = pl.col(column).cast(pl.String), pl.col(column) > 0
    return [
        pl.when(known).then(text.str.slice(1, 3)).alias("mcc"),
        pl.when(known).then(text.str.slice(4)).alias("mnc"),
    ]


def place_code() -> pl.Expr:
    """The columns ``location``, ``area`` and ``cell`` to one number; a bit each says what is known."""
    kind = pl.col("location").replace_strict(_NUMBERS, default=0, return_dtype=pl.UInt64).fill_null(0)
    area, cell = pl.col("area").cast(pl.UInt64), pl.col("cell").cast(pl.UInt64)
    packed = (
        kind * (1 << 60)
        + pl.when(area.is_not_null()).then(1 << 59).otherwise(0).cast(pl.UInt64)
        + pl.when(cell.is_not_null()).then(1 << 58).otherwise(0).cast(pl.UInt64)
        + area.fill_null(0) * (1 << 32)
        + cell.fill_null(0)
    )
    return pl.when(kind > 0).then(packed).otherwise(0).cast(pl.UInt64)


def place_columns(column: str) -> list[pl.Expr]:
    """A number back to the columns ``location``, ``area`` and ``cell``."""
    code = pl.col(column)
    kind = (code // (1 << 60)).replace_strict(_KINDS, return_dtype=pl.String)
    return [
        pl.when(code > 0).then(kind).alias("location"),
        pl.when(code // (1 << 59) % 2 == 1).then(code // (1 << 32) % (1 << 24)).cast(pl.UInt32).alias("area"),
        pl.when(code // (1 << 58) % 2 == 1).then(code % (1 << 32)).cast(pl.UInt32).alias("cell"),
    ]
