"""Parcels as rows of Spark, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.outbox import Parcel
from penstock.frames.frame import ARROW_SCHEMA, Frame
from penstock.frames.slices import address
from penstock.spark.handover import BY_REFERENCE_BYTES, lay_down

CLOCK = "__clock__"
METRICS = "__metrics__"
LETTERS = "__dead-letters__"
BATCH_BYTES = 8 << 20
"""Arrow batches for the JVM are about this large: a payload lies in each of them as a copy."""
WATERMARKS = "watermarks"
"""The kind of a frame that tells how far a split takes the watermark of its source."""


@dataclass(slots=True)
class Stamper:
    """Puts headers on parcels for one task of one epoch."""

    version: int
    epoch: int
    handover: Path
    """Where large payloads that would be copied several times are laid down."""
    waiting: frozenset[str] = frozenset()
    """The sinks that frames reach only after they have passed another hop."""

    def frames(self, parcels: Iterable[Parcel]) -> Iterator[Frame]:
        """Yield the frames of parcels that were made together, as they are made."""
        for _, group in groupby(parcels, key=lambda parcel: id(parcel.payload)):
            yield from self._of_one_payload(list(group))

    def control(
        self, node: str, slice_: int, kind: str, payload: bytes | None = None, **header: Any
    ) -> Frame:
        """A frame that carries no rows."""
        return Frame(
            address=address(node, slice_),
            node=node,
            slice=slice_,
            input="",
            source=header.get("source", ""),
            sequence=header.get("sequence", 0),
            version=self.version,
            epoch=self.epoch,
            rows=0,
            punctuation=header.get("punctuation"),
            first_time=None,
            last_time=None,
            payload=payload,
            kind=kind,
        )

    def _of_one_payload(self, parcels: list[Parcel]) -> list[Frame]:
        payload, kind = parcels[0].payload, "data"
        copies = len(parcels) > 1 or parcels[0].node in self.waiting
        if copies and len(payload) >= BY_REFERENCE_BYTES:
            payload, kind = lay_down(self.handover, self.epoch, payload), "reference"
        return [self._frame(parcel, payload, kind) for parcel in parcels]

    def _frame(self, parcel: Parcel, payload: bytes, kind: str) -> Frame:
        return Frame(
            address=address(parcel.node, parcel.slice),
            node=parcel.node,
            slice=parcel.slice,
            input=parcel.input,
            source=parcel.source,
            sequence=parcel.sequence,
            version=self.version,
            epoch=self.epoch,
            rows=parcel.rows,
            punctuation=parcel.watermark,
            first_time=None,
            last_time=None,
            payload=payload,
            kind=kind,
        )


def to_batch(frames: Sequence[Frame]) -> pa.RecordBatch:
    """Frames as one Arrow batch of Spark rows."""
    columns = [
        _payloads([frame.payload for frame in frames])
        if column.name == "payload"
        else pa.array([getattr(frame, column.name) for frame in frames], type=column.type)
        for column in ARROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def to_batches(frames: Iterable[Frame]) -> Iterator[pa.RecordBatch]:
    """Yield frames as Arrow batches of about `BATCH_BYTES`, so that few payloads are in memory at once."""
    held: list[Frame] = []
    size = 0
    for frame in frames:
        held.append(frame)
        size += len(frame.payload or b"")
        if size >= BATCH_BYTES:
            yield to_batch(held)
            held, size = [], 0
    if held:
        yield to_batch(held)


def _payloads(payloads: list[bytes | None]) -> pa.Array:
    """Payloads as a column, copied once: Arrow's own way moves all again whenever it needs more room."""
    ends = np.cumsum([0, *(len(payload or b"") for payload in payloads)], dtype=np.int32)
    is_there = pa.array([payload is not None for payload in payloads])
    data = pa.py_buffer(b"".join(payload for payload in payloads if payload))
    buffers = [is_there.buffers()[1], pa.py_buffer(ends), data]
    return pa.Array.from_buffers(pa.binary(), len(payloads), buffers)
