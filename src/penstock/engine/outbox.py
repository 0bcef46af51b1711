"""Turns what leaves a task into parcels: rows for one slice, numbered so that order is never lost."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.connect.source import END_OF_TIME
from penstock.engine.flow import Departure
from penstock.errors import PenstockError
from penstock.frames.frame import encode
from penstock.frames.routing import slice_ids, split_encoded
from penstock.operators.boundary import Boundary
from penstock.topology.graph import Edge, Node
from penstock.topology.routes import Route

FRAME_ROWS = 1 << 20
FRAME_BYTES = 64 << 20
"""What waits is sent when it is this large: rows may be packets, and the JVM takes many frames at once."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A payload on its way to one slice of a node; a broadcast shares one payload."""

    node: str
    slice: int
    input: str
    source: str
    sequence: int
    rows: int
    payload: bytes
    watermark: int | None = None
    """What its source had promised, before its rows, not to go behind; the end of time: all are late."""


@dataclass(slots=True)
class Outbox:
    """Collects departures of one origin, cuts them by slice and serialises each payload once."""

    origin: str
    """Orders the parcels of different senders at the receiver, together with the sequence."""
    place: int
    """The slice that rows go to where the receiver has no slices of its own (sinks, Spark)."""
    boundary: Boundary | None = None
    _waiting: dict[tuple[str, Edge, bool], list[Departure]] = field(default_factory=dict)
    _rows: int = 0
    _bytes: int = 0
    _position: int = 0

    def add(self, departures: list[Departure], position: int) -> Iterator[Parcel]:
        """Take departures; give parcels once there are enough rows or bytes for large ones.

        ``position`` says where the sender is in its own stream: it numbers the parcels and deals
        out shuffled rows, so it must depend on the data alone.
        """
        if not self._waiting:
            self._position = position
        for departure in departures:
            place = (departure.target.name, departure.edge, departure.is_late)
            self._waiting.setdefault(place, []).append(departure)
            self._rows += departure.rows.height
            self._bytes += int(departure.rows.estimated_size())
        if self._rows >= FRAME_ROWS or self._bytes >= FRAME_BYTES:
            yield from self.flush()

    def stream(self, departures: Iterable[Departure]) -> Iterator[list[Parcel]]:
        """Take all that leaves a task; yield parcels as soon as they are made, by payload together."""
        position = 0
        for departure in departures:
            yield list(self.add([departure], position))
            position += departure.rows.height
        yield list(self.flush())

    def flush(self) -> Iterator[Parcel]:
        """Give everything that waits."""
        waiting, self._waiting = self._waiting, {}
        self._rows = self._bytes = 0
        for (_, edge, is_late), departures in waiting.items():
            rows = pl.concat([d.rows for d in departures], rechunk=True)
            yield from self._parcels(departures[0].target, edge, rows, END_OF_TIME if is_late else None)

    def _parcels(
        self, target: Node, edge: Edge, rows: pl.DataFrame, watermark: int | None
    ) -> Iterator[Parcel]:
        source = self._source(target, edge)

        def parcel(slice_: int, count: int, payload: bytes) -> Parcel:
            return Parcel(target.name, slice_, edge.input, source, self._position, count, payload, watermark)

        if edge.route is None:
            yield parcel(self.place, rows.height, encode(rows))
            return
        ids = self._ids(target, edge.route, rows)
        if ids is None:
            payload = encode(rows)
            yield from (parcel(s, rows.height, payload) for s in range(target.parallelism))
            return
        for cut in split_encoded(rows, ids, target.parallelism):
            yield parcel(cut.slice, cut.rows, cut.payload)

    def _source(self, target: Node, edge: Edge) -> str:
        """The origin; told apart by edge where one origin leads to an input on several ways."""
        ways = [e for e in target.inputs if e.input == edge.input]
        return self.origin if ways[0] == edge else f"{self.origin}|{ways.index(edge)}"

    def _ids(self, target: Node, route: Route, rows: pl.DataFrame) -> npt.NDArray[np.int32] | None:
        # Every slice of a node starts at position 0: without its name all would deal to the same slice first.
        start = self._position + zlib.crc32(self.origin.encode())
        try:
            return slice_ids(rows, route, target.parallelism, start=start)
        except PenstockError:
            raise
        except Exception as error:  # partition_by runs the user's function
            if self.boundary is None:
                raise
            raise self.boundary.failure(target, rows, error) from error
