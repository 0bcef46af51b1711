"""A frame: many events bound for one slice of one node, as one row of Spark.

Spark sees the header's small columns and one opaque payload; it never looks into the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from penstock.frames._payload import decode_batches, encode_batch
from penstock.frames.types import empty
from penstock.topology.schema import Schema


@dataclass(frozen=True, slots=True)
class Frame:
    """The header and payload of a frame. Times are microseconds since 1970 in UTC.

    A slice takes its frames in the order (input, source, sequence). A frame without payload carries only
    its punctuation: no event of this source with an earlier time will follow.
    """

    address: int
    node: str
    slice: int
    input: str
    source: str
    sequence: int
    version: int
    epoch: int
    rows: int
    punctuation: int | None
    first_time: int | None
    last_time: int | None
    payload: bytes | None
    kind: str = "data"


ARROW_SCHEMA: pa.Schema = pa.schema(
    [
        ("address", pa.int64()),
        ("node", pa.string()),
        ("slice", pa.int32()),
        ("input", pa.string()),
        ("source", pa.string()),
        ("sequence", pa.int64()),
        ("version", pa.int32()),
        ("epoch", pa.int64()),
        ("rows", pa.int64()),
        ("punctuation", pa.int64()),
        ("first_time", pa.int64()),
        ("last_time", pa.int64()),
        ("payload", pa.binary()),
        ("kind", pa.string()),
    ]
)
_SPARK = {pa.int64(): "BIGINT", pa.int32(): "INT", pa.string(): "STRING", pa.binary(): "BINARY"}
DDL: str = ", ".join(f"{field.name} {_SPARK[field.type]}" for field in ARROW_SCHEMA)


def encode(df: pl.DataFrame) -> bytes:
    """The payload of a frame that conforms to its schema (see `frames.types.conform`)."""
    return encode_batch(to_batch(df))


def decode(payload: bytes | memoryview | pa.Buffer, schema: Schema) -> pl.DataFrame:
    """The events of a payload that was encoded from a frame of this schema."""
    return decode_all([payload], schema)


def decode_all(payloads: Sequence[bytes | memoryview | pa.Buffer], schema: Schema) -> pl.DataFrame:
    """The events of several payloads in their order: cheaper than joining them afterwards."""
    batch = decode_batches(payloads, schema) if payloads else None
    return pl.DataFrame(batch) if batch is not None and batch.num_rows else empty(schema)


def to_batch(df: pl.DataFrame) -> pa.RecordBatch:
    """The frame as one Arrow record batch, without copying fixed-width columns."""
    table = df.rechunk().to_arrow()
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    columns = [column.combine_chunks() for column in table.columns]
    return pa.RecordBatch.from_arrays(columns, schema=table.schema)
