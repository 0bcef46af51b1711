"""Access logs of web servers: the common and the combined format of Apache httpd, and what is near them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.connect.parsing import Parser, is_utf8, utf8_fault
from penstock.topology.schema import Schema

_TEXTS = ("host", "user", "method", "path", "query", "protocol", "referrer", "agent", "cookie")
VISITOR = "visitor"
_NUMBERS: dict[str, pl.DataType | type[pl.DataType]] = {
    "time": pl.Datetime("us"),
    "status": pl.Int32,
    "bytes": pl.Int64,
}


class AccessLogLines(Parser):
    """``host ident user [time] "request" status bytes "referrer" "agent" "cookie"``, in one pass.

    Ident and user, bytes, and the quoted fields at the end may be missing, and more may follow. A field that
    is "-" is null. A request that is none (a client that sent garbage) has no method and no path.
    ``visitor`` is not in the line: the stable hash of host and agent, made here from the bytes.
    """

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names

    def block(self, data: bytes, reject: Callable[[int, bytes, str], None]) -> pl.DataFrame:
        """The rows of a block. Bad lines go to ``reject`` with their place in the block, in order."""
        from penstock.connect import _access_log as kernels
        from penstock.frames._jit import readonly

        text = readonly(np.frombuffer(data, np.uint8))
        most = kernels.line_breaks(text) + 1
        lines, numbers = np.empty((2, most), np.int64), np.empty((kernels.NUMBERS, most), np.int64)
        texts, reasons = np.empty((most, 2 * kernels.TEXTS), np.int32), np.empty(most, np.uint8)
        count = kernels.scan(text, lines, texts, numbers, reasons)
        faults = {row: kernels.REASONS[reasons[row]] for row in np.flatnonzero(reasons[:count]).tolist()}
        if not data.isascii() and not is_utf8(data):
            raws = (data[begin:end] for begin, end in lines[:, :count].T)
            faults.update({row: fault for row, raw in enumerate(raws) if (fault := utf8_fault(raw))})
        for row in sorted(faults):
            begin, end = lines[:, row]
            reject(int(begin), data[begin:end], faults[row])
        kept = np.delete(np.arange(count), list(faults)) if faults else slice(count)
        texts, numbers = texts[kept], numbers[:, kept]
        return pl.DataFrame([self._column(name, data, texts, numbers) for name in self._names])

    def _column(
        self, name: str, data: bytes, texts: npt.NDArray[np.int32], numbers: npt.NDArray[np.int64]
    ) -> pl.Series:
        if name == VISITOR:
            return _visitors(data, texts)
        if name not in _NUMBERS:
            return _strings(name, data, texts, _TEXTS.index(name))
        values = numbers[tuple(_NUMBERS).index(name)]
        column = pl.Series(name, values).cast(_NUMBERS[name])
        return column.set(pl.Series(values < 0), None) if name == "bytes" else column


def _strings(name: str, data: bytes, texts: npt.NDArray[np.int32], field: int) -> pl.Series:
    """A field of all lines as strings, without a copy of those longer than 12 bytes."""
    from penstock.connect import _access_log as kernels
    from penstock.frames._jit import readonly

    words = np.zeros((len(texts), 4), np.uint32)
    kernels.views(readonly(np.frombuffer(data, np.uint8)), texts, field, words)
    present = texts[:, 2 * field] >= 0
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [valid, pa.py_buffer(words), pa.py_buffer(data)]
    return pl.Series(name, pa.Array.from_buffers(pa.string_view(), len(texts), buffers), dtype=pl.String)


def _visitors(data: bytes, texts: npt.NDArray[np.int32]) -> pl.Series:
    from penstock.connect import _access_log as kernels
    from penstock.frames._jit import readonly

    hashes = np.empty(len(texts), np.uint64)
    kernels.visitors(readonly(np.frombuffer(data, np.uint8)), texts, hashes)
    return pl.Series(VISITOR, hashes)
