"""Compile the kernels that every topology uses, so that the first run need not.

``python -m penstock.engine.warm`` is slow once; numba keeps the result beside the code.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from penstock.frames.frame import decode_all
from penstock.frames.routing import slice_ids, split_encoded
from penstock.frames.types import of_frame
from penstock.operators.keyed import KeyedTable
from penstock.topology.routes import KeyBy

_ROWS = 256


def warm() -> None:
    """Send small frames of all usual types through hashing, splitting and keyed state."""
    for frame in _frames():
        ids = slice_ids(frame, KeyBy(("key",)), 8, start=0)
        assert ids is not None
        cuts = split_encoded(frame, ids, 8)
        _keep_state(decode_all([cut.payload for cut in cuts], of_frame(frame)))


def _frames() -> Iterator[pl.DataFrame]:
    number = pl.int_range(_ROWS, eager=True)
    values = {"count": number, "share": number / 7, "time": number.cast(pl.Datetime("us"))}
    for key in (number % 50, (number % 50).cast(pl.String), (number % 50).cast(pl.String).cast(pl.Binary)):
        yield pl.DataFrame({"key": key, **values})
    yield pl.DataFrame({"key": number % 50, "other": number % 3, **values})


def _keep_state(frame: pl.DataFrame) -> None:
    names = [name for name in ("key", "other") if name in frame.columns]
    table = KeyedTable({name: frame.schema[name] for name in names}, {"count": int, "share": float})
    for _ in range(2):  # a table that is empty, and one that has these keys
        rows = table.rows(frame.select(names))
        table.count("count", rows)
        for change in (table.add, table.maximum, table.minimum, table.last):
            change("count", rows, frame["count"])
            change("share", rows, frame["share"])
    rebuilt = KeyedTable.restored(table.export_base())
    table.remove(table.find(frame.select(names))[:10])
    rebuilt.apply(table.export_delta())
    rebuilt.frame()


if __name__ == "__main__":
    warm()
