"""Parcels as rows of Spark, and back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from penstock.engine.outbox import Parcel
from penstock.frames.frame import ARROW_SCHEMA, Frame
from penstock.frames.slices import addresses
from penstock.spark.handover import BY_REFERENCE_BYTES, lay_down, least_alone_bytes
from penstock.topology.stream import SLICES

CLOCK = "__clock__"
METRICS = "__metrics__"
LETTERS = "__dead-letters__"


@dataclass(slots=True)
class Stamper:
    """Puts headers on parcels for one task of one epoch."""

    version: int
    epoch: int
    handover: Path
    """Where large payloads are laid down."""
    hosted: Container[str]
    """The nodes that hops run, which pick them up; sinks and Spark's own nodes do not."""

    def frames(self, parcels: Iterable[Parcel]) -> list[Frame]:
        """The frames of parcels that were made together."""
        groups = [list(group) for _, group in groupby(parcels, key=lambda parcel: id(parcel.payload))]
        large = [group for group in groups if self._is_large(group)]
        laid = lay_down(self.handover, self.epoch, [group[0].payload for group in large]) if large else []
        references = {id(group): reference for group, reference in zip(large, laid, strict=True)}
        return [
            self._frame(parcel, references.get(id(group), parcel.payload), id(group) in references)
            for group in groups
            for parcel in group
        ]

    def _is_large(self, group: list[Parcel]) -> bool:
        least = BY_REFERENCE_BYTES if len(group) > 1 else least_alone_bytes()
        return len(group[0].payload) >= least and group[0].node in self.hosted

    def control(
        self, node: str, slice_: int, kind: str, payload: bytes | None = None, **header: int
    ) -> Frame:
        """A frame that carries no rows."""
        return Frame(
            address=address_of(node, slice_),
            node=node,
            slice=slice_,
            input="",
            source="",
            sequence=0,
            version=self.version,
            epoch=self.epoch,
            rows=0,
            punctuation=header.get("punctuation"),
            first_time=None,
            last_time=None,
            payload=payload,
            kind=kind,
        )

    def _frame(self, parcel: Parcel, payload: bytes, is_reference: bool) -> Frame:
        return Frame(
            address=address_of(parcel.node, parcel.slice),
            node=parcel.node,
            slice=parcel.slice,
            input=parcel.input,
            source=parcel.source,
            sequence=parcel.sequence,
            version=self.version,
            epoch=self.epoch,
            rows=parcel.rows,
            punctuation=None,
            first_time=None,
            last_time=None,
            payload=payload,
            kind="reference" if is_reference else "data",
        )


def address_of(node: str, slice_: int) -> int:
    """The grouping key of a slice."""
    return int(addresses(node, max(SLICES, slice_ + 1))[slice_])


def to_batch(frames: Sequence[Frame]) -> pa.RecordBatch:
    """Frames as one Arrow batch of Spark rows."""
    columns = [
        pa.array([getattr(frame, column.name) for frame in frames], type=column.type)
        for column in ARROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
