"""The bytes of an exported `KeyedTable`: a base (everything) or a delta (what changed).

Row numbers are part of it, so a rebuilt table numbers its rows as the exported one does, and what it emits
later has the same order.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.frames.frame import decode, encode
from penstock.topology.schema import Schema

_HEAD = struct.Struct("<4sIqqq")  # kind, length of the schema's text, top, popped, length of the list
_KINDS: dict[bytes, Literal["base", "delta"]] = {b"ktb1": "base", b"ktd1": "delta"}
_MAGIC = {kind: magic for magic, kind in _KINDS.items()}
_ROW = "#row"


@dataclass(frozen=True, slots=True)
class Content:
    """What an export says. `listed` are the removed rows of a delta, the free rows of a base."""

    kind: Literal["base", "delta"]
    top: int
    popped: int
    listed: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    frame: pl.DataFrame


def pack(content: Content, key: Schema, value: Schema) -> bytes:
    """The content as bytes, which say themselves what columns they hold."""
    text = json.dumps([key.columns, value.columns]).encode()
    text += b" " * (-len(text) % 8)
    head = _HEAD.pack(_MAGIC[content.kind], len(text), content.top, content.popped, len(content.listed))
    rows = content.frame.insert_column(0, pl.Series(_ROW, content.numbers))
    return b"".join((head, text, content.listed.tobytes(), encode(rows)))


def unpack(blob: bytes, key: Schema, value: Schema) -> Content:
    """The content of bytes that `pack` gave; ValueError if they are of a table with other columns."""
    found = columns_of(blob)
    if found != (key, value):
        raise ValueError(
            f"the export is of a table with key ({found[0]}) and values ({found[1]}), "
            f"this one has ({key}) and ({value})"
        )
    magic, size, top, popped, count = _HEAD.unpack_from(blob)
    end = _HEAD.size + size
    listed = np.frombuffer(blob, np.int64, count, end)
    columns = Schema(((_ROW, "int64"), *key.columns, *value.columns))
    rows = decode(memoryview(blob)[end + 8 * count :], columns)
    numbers = rows.drop_in_place(_ROW).to_numpy()
    return Content(_KINDS[magic], top, popped, listed, numbers, rows)


def columns_of(blob: bytes) -> tuple[Schema, Schema]:
    """The key and value columns of an export."""
    if len(blob) < _HEAD.size or blob[:4] not in _KINDS:
        raise ValueError("these bytes are no export of a KeyedTable")
    size = _HEAD.unpack_from(blob)[1]
    return _columns_in(bytes(blob[_HEAD.size : _HEAD.size + size]))


@lru_cache(maxsize=256)
def _columns_in(text: bytes) -> tuple[Schema, Schema]:
    key, value = json.loads(text)
    return Schema(tuple(map(tuple, key))), Schema(tuple(map(tuple, value)))
