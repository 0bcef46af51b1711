"""Parcels as rows of Spark, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.outbox import Parcel
from penstock.frames.frame import ARROW_SCHEMA, Frame
from penstock.frames.slices import addresses, partition_of
from penstock.topology.stream import SLICES

CLOCK = "__clock__"
METRICS = "__metrics__"
LETTERS = "__dead-letters__"


@dataclass(slots=True)
class Stamper:
    """Puts headers on parcels for one task of one epoch.

    A payload that goes to several slices in the same state partition is sent there once: the row
    with the least address carries it, the others refer to it. Spark sorts a partition's rows by
    address, so the carrier comes first.
    """

    version: int
    epoch: int
    partitions: int

    def frames(self, parcels: Iterable[Parcel]) -> list[Frame]:
        """The frames of parcels that were made together."""
        found: list[Frame] = []
        shared: dict[int, list[Parcel]] = {}
        for parcel in parcels:
            shared.setdefault(id(parcel.payload), []).append(parcel)
        for group in shared.values():
            found += [self._frame(group[0])] if len(group) == 1 else self._broadcast(group)
        return found

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

    def _frame(self, parcel: Parcel, *, carries: bool = True) -> Frame:
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
            payload=parcel.payload if carries else None,
            kind="data" if carries else "shared",
        )

    def _broadcast(self, group: list[Parcel]) -> list[Frame]:
        carriers: set[int] = set()
        frames = []
        for parcel in sorted(group, key=lambda p: address_of(p.node, p.slice)):
            partition = partition_of(address_of(parcel.node, parcel.slice), self.partitions)
            frames.append(self._frame(parcel, carries=partition not in carriers))
            carriers.add(partition)
        return frames


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
