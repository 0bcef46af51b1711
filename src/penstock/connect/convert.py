"""Text to typed columns, in bulk, with the rows that do not fit marked instead of raised."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.frames.types import polars_type

_ZONE = r"[T ].*(Z|[+-]\d{2}(:?\d{2})?)$"
_TIMESTAMP = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([T ]([01]\d|2[0-3])(:[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?$"
)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def convert(text: pl.Series, kind: str) -> tuple[pl.Series, pl.Series | None]:
    """The column as ``kind``, and a mask of the values that are not of this kind (None: all are).

    A value is judged by itself, never by its neighbours: how the input was cut into blocks must not
    decide what is good. Surrounding blanks are allowed and an empty text is null, except in strings.
    """
    if kind == "string":
        return text, None
    if kind == "binary":
        return text.cast(pl.Binary), None
    if kind == "timestamp":
        values = _whole_timestamps(text)
        if values is not None:
            return values, None
    else:
        values = _plain(text, kind)
        if values.null_count() == text.null_count():
            return values, None
    stripped = text.str.strip_chars()
    values = _mixed_timestamps(stripped) if kind == "timestamp" else _plain(stripped, kind)
    bad = values.is_null() & stripped.is_not_null() & (stripped != "")
    return values, bad if bad.any() else None


def _plain(text: pl.Series, kind: str) -> pl.Series:
    if kind == "bool":
        return text.str.to_lowercase().replace_strict(_BOOLEANS, default=None, return_dtype=pl.Boolean)
    if kind == "date":
        return text.str.to_date("%Y-%m-%d", strict=False)
    if kind == "time":
        return text.str.to_time("%H:%M:%S%.f", strict=False)
    if kind == "duration":
        return text.cast(pl.Int64, strict=False).cast(pl.Duration("us"))
    return text.cast(polars_type(kind), strict=False)


def _whole_timestamps(text: pl.Series) -> pl.Series | None:
    """All values at once, if they are all in UTC without zone, or all with one."""
    array = text.to_arrow()
    for zone in (None, "UTC"):
        try:
            return _from_arrow(pc.cast(array, pa.timestamp("us", zone)), text.name)
        except pa.ArrowInvalid:
            continue
    return None


def _mixed_timestamps(text: pl.Series) -> pl.Series:
    """With and without zone side by side; null where the text is no time. Cuts off nanoseconds."""
    cut = text.str.replace(r"(\.\d{6})\d{1,3}", "${1}")
    frame = pl.DataFrame({"t": cut, "fits": cut.str.contains(_TIMESTAMP), "zoned": cut.str.contains(_ZONE)})
    naive = frame.select(pl.when(pl.col("fits") & ~pl.col("zoned")).then("t"))["t"].to_arrow()
    zoned = frame.select(pl.when(pl.col("fits") & pl.col("zoned")).then("t"))["t"].to_arrow()
    plain = _from_arrow(_cast_what_can(naive, pa.timestamp("us")), text.name)
    return plain.fill_null(_from_arrow(_cast_what_can(zoned, pa.timestamp("us", "UTC")), text.name))


def _cast_what_can(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast by halving, null for what cannot be cast: only days such as 30 February are left here."""
    try:
        return pc.cast(array, kind)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, kind)
        half = len(array) // 2
        return pa.concat_arrays([_cast_what_can(array[:half], kind), _cast_what_can(array[half:], kind)])


def _from_arrow(array: pa.Array, name: str) -> pl.Series:
    values = pl.Series(name, array.cast(pa.timestamp("us")))
    return values.cast(pl.Datetime("us"))


def without_tokens(text: pl.Series, tokens: Sequence[str]) -> pl.Series:
    """Null where the text is one of the tokens."""
    return text.to_frame().select(pl.when(~pl.col(text.name).is_in(tokens)).then(text.name))[text.name]
