"""Turn a record batch into as few bytes as it needs, and back, exactly.

Layout: format (1 byte), number of notes (2 bytes), length of words (4 bytes), then one note per narrowed
column, the words, then Arrow's record batch message without its schema. Everything before the message is a
multiple of 8 bytes long, which keeps Arrow's buffers aligned. A note (column, width, is coded, base) says
that integers travel as unsigned integers of that width relative to base (width 0: all are the base), or that
offsets of strings travel with that width (width 0: all are the same word, whose length is base - 1; without
base they are null). Coded integers of 64 bits travel as numbers of words of 8 bytes, of which there are base.
Integers are computed modulo 2**64, so every type is exact over its full range.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InternalError
from penstock.frames.types import to_arrow
from penstock.topology.schema import Schema

FORMAT = 3
_HEAD = struct.Struct("<BxHI")
_NOTE = struct.Struct("<HB?xxxxQ")
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_NARROW = {0: pa.null(), 1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32()}
_SHORT = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_SHORT_LIMIT = 1 << 31
_MOST_WORDS = 256
_SAMPLE, _FEW_IN_SAMPLE = 512, 96
"""Columns whose sample has more different values are not coded; addresses of servers often have fewer."""


class Note(NamedTuple):
    """How one column was narrowed."""

    column: int
    width: int
    is_coded: bool
    base: int
    words: bytes = b""


class Narrowed(NamedTuple):
    """A column as it travels, and what its note says."""

    column: pa.Array
    width: int
    base: int = 0
    words: bytes = b""
    is_coded: bool = False


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Serialise a record batch with its integers narrowed to the width they need."""
    head, narrowed = narrow(batch)
    return join(head, narrowed)


def narrow(batch: pa.RecordBatch) -> tuple[bytes, pa.RecordBatch]:
    """The narrowed batch, and the head that each payload cut from it begins with."""
    columns: list[pa.Array] = batch.columns
    notes, words = [], b""
    for i, column in enumerate(columns):
        shrunk = _shrink(column) if len(column) else None
        if shrunk is not None:
            columns[i] = shrunk.column
            notes.append(_NOTE.pack(i, shrunk.width, shrunk.is_coded, shrunk.base))
            words += shrunk.words
    if notes:
        batch = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    words += bytes(-len(words) % 8)
    return b"".join((_HEAD.pack(FORMAT, len(notes), len(words)), *notes, words)), batch


def join(head: bytes, batch: pa.RecordBatch) -> bytes:
    """One payload of a head and a (cut of a) narrowed batch."""
    return b"".join((head, memoryview(batch.serialize())))


def decode_batches(payloads: Sequence[bytes | memoryview | pa.Buffer], schema: Schema) -> pa.RecordBatch:
    """The rows of all payloads in their order; the schema must be the one they were encoded from."""
    wanted = to_arrow(schema)
    parts = [_open(payload, schema) for payload in payloads]
    columns = [_column([_pick(part, i) for part in parts], kind) for i, kind in enumerate(wanted.types)]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _open(payload: bytes | memoryview | pa.Buffer, schema: Schema) -> tuple[list[pa.Array], dict[int, Note]]:
    buffer = payload if isinstance(payload, pa.Buffer) else pa.py_buffer(payload)
    version, count, words = _HEAD.unpack_from(buffer)
    if version != FORMAT:
        raise InternalError(what=f"a payload has format {version}, this release reads {FORMAT}")
    end = _HEAD.size + count * _NOTE.size
    notes = [Note(*_NOTE.unpack_from(buffer, at)) for at in range(_HEAD.size, end, _NOTE.size)]
    if words:
        notes = _with_words(notes, buffer.slice(end, words).to_pybytes(), schema)
        end += words
    travelled = _travelled(schema, tuple((note.column, note.width) for note in notes))
    batch = pa.ipc.read_record_batch(buffer.slice(end), travelled)
    return batch.columns, {note.column: note for note in notes}


@lru_cache(maxsize=1024)
def _travelled(schema: Schema, widths: tuple[tuple[int, int], ...]) -> pa.Schema:
    fields = list(to_arrow(schema))
    for index, width in widths:
        kind = fields[index].type
        fields[index] = pa.field(fields[index].name, (_SHORT.get(kind) if width else None) or _NARROW[width])
    return pa.schema(fields)


def _pick(part: tuple[list[pa.Array], dict[int, Note]], index: int) -> tuple[pa.Array, Note | None]:
    return part[0][index], part[1].get(index)


def _column(parts: list[tuple[pa.Array, Note | None]], kind: pa.DataType) -> pa.Array:
    """One column of all payloads; fixed-width values are written once, into their final place."""
    if len(parts) == 1:
        return _widen(*parts[0], kind)
    has_nulls = any(column.null_count for column, note in parts if note is None or note.width)
    if has_nulls or _integer(kind) is None:
        return pa.chunked_array([_widen(*part, kind) for part in parts], kind).combine_chunks()
    rows = sum(len(column) for column, _ in parts)
    values = np.empty(rows, _UNSIGNED[kind.bit_width // 8])
    at = 0
    for column, note in parts:
        _write(column, note, values[at : at + len(column)])
        at += len(column)
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)])


def _with_words(notes: list[Note], words: bytes, schema: Schema) -> list[Note]:
    at, found, kinds = 0, [], to_arrow(schema).types
    for note in notes:
        is_string = kinds[note.column] in _SHORT and note.width == 0 and note.base
        size = 8 * note.base if note.is_coded else note.base - 1 if is_string else 0
        found.append(note._replace(words=words[at : at + size]) if size else note)
        at += size
    return found


def _shrink(column: pa.Array) -> Narrowed | None:
    if (kind := _integer(column.type)) is not None:
        return _narrow(column, kind) if column.null_count == 0 else _narrow_with_nulls(column, kind)
    short = _SHORT.get(column.type)
    if short is None:
        return None
    if column.null_count == len(column):
        return Narrowed(pa.nulls(len(column)), 0)
    if (word := _only_word(column)) is not None:
        return Narrowed(pa.nulls(len(column)), 0, len(word) + 1, word)
    return Narrowed(column.cast(short), 4) if column.get_total_buffer_size() < _SHORT_LIMIT else None


def _only_word(column: pa.Array) -> bytes | None:
    """What all strings are, if they are the same; the first and the last mostly tell at once."""
    if column.null_count or not column[0].equals(column[-1]):
        return None
    if not pc.all(pc.equal(column, column[0])).as_py():
        return None
    return bytes(column[0].as_buffer())


@lru_cache(maxsize=256)
def _integer(kind: pa.DataType) -> np.dtype[Any] | None:
    """How to read a column that consists of integers."""
    if pa.types.is_integer(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return np.dtype(f"i{kind.bit_width // 8}") if pa.types.is_temporal(kind) else None


def _narrow(column: pa.Array, kind: np.dtype[Any]) -> Narrowed | None:
    values = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * kind.itemsize)
    low, high = int(values.min()), int(values.max())
    width = _width(high - low)
    if width > 2 and kind.itemsize == 8 and (coded := _code(values.view(np.uint64))) is not None:
        return coded
    if width >= kind.itemsize:
        return None
    base = low & 0xFFFFFFFFFFFFFFFF
    if width == 0:
        return Narrowed(pa.nulls(len(column)), 0, base)
    relative = pa.py_buffer(_relative(values, base, width))
    return Narrowed(pa.Array.from_buffers(_NARROW[width], len(column), [None, relative]), width, base)


def _code(values: npt.NDArray[np.uint64]) -> Narrowed | None:
    """Numbers of the different values, if those are few and all the same worth their place."""
    from penstock.frames import _kernels as kernels

    rows = len(values)
    if rows < _SAMPLE or len(np.unique(values[:: rows // _SAMPLE])) > _FEW_IN_SAMPLE:
        return None
    codes, words = np.empty(rows, np.uint8), np.empty(_MOST_WORDS, np.uint64)
    count = kernels.code(kernels.readonly(values), codes, words)
    if count < 0:
        return None
    column = pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(codes)])
    return Narrowed(column, 1, count, words[:count].tobytes(), is_coded=True)


def _narrow_with_nulls(column: pa.Array, kind: np.dtype[Any]) -> Narrowed | None:
    validity, data = column.buffers()
    known = column.drop_null()
    if not len(known):
        return None
    values = np.frombuffer(known.buffers()[1], kind, len(known), known.offset * kind.itemsize)
    low, high = int(values.min()), int(values.max())
    width = max(1, _width(high - low))
    if width >= kind.itemsize:
        return None
    # The bitmap can only be cut at whole bytes, so up to 7 values before the first come along.
    ahead = column.offset % 8
    start, rows = column.offset - ahead, len(column) + ahead
    base = low & 0xFFFFFFFFFFFFFFFF
    relative = _relative(np.frombuffer(data, kind, rows, start * kind.itemsize), base, width)
    buffers = [validity.slice(start // 8), pa.py_buffer(relative)]
    narrowed = pa.Array.from_buffers(_NARROW[width], len(column), buffers, offset=ahead)
    return Narrowed(narrowed, width, base)


def _relative(values: npt.NDArray[Any], base: int, width: int) -> npt.NDArray[Any]:
    # Narrow first: modulo 2**n the order does not matter, and fewer bytes are subtracted.
    dtype = _UNSIGNED[width]
    relative: npt.NDArray[Any] = values.view(_UNSIGNED[values.itemsize]).astype(dtype)
    relative -= dtype(base & ((1 << 8 * width) - 1))
    return relative


def _widen(column: pa.Array, note: Note | None, kind: pa.DataType) -> pa.Array:
    if note is None:
        return column
    if kind in _SHORT:
        return column.cast(kind) if note.width else _repeated(note, len(column), kind)
    values = np.empty(len(column) + column.offset, _UNSIGNED[kind.bit_width // 8])
    _write(column, note, values)
    validity = column.buffers()[0] if note.width else None
    return pa.Array.from_buffers(kind, len(column), [validity, pa.py_buffer(values)], offset=column.offset)


def _repeated(note: Note, rows: int, kind: pa.DataType) -> pa.Array:
    if not note.base:
        return pa.nulls(rows, kind)
    return pa.repeat(pa.scalar(note.words, pa.large_binary()), rows).cast(kind)


def _write(column: pa.Array, note: Note | None, out: npt.NDArray[Any]) -> None:
    """Write the values of a column as it travelled into their place."""
    if note is not None and note.width == 0:
        out[:] = out.dtype.type(note.base & ((1 << 8 * out.itemsize) - 1))
        return
    width = out.itemsize if note is None else note.width
    travelled = np.frombuffer(column.buffers()[1], _UNSIGNED[width], len(out))
    if note is not None and note.is_coded:
        np.take(np.frombuffer(note.words, np.uint64), travelled, out=out, mode="clip")
        return
    out[:] = travelled
    if note is not None:
        out += out.dtype.type(note.base & ((1 << 8 * out.itemsize) - 1))


def _width(span: int) -> int:
    return 0 if span == 0 else 1 if span < 1 << 8 else 2 if span < 1 << 16 else 4 if span < 1 << 32 else 8
