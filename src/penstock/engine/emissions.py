"""What an operator emits in an epoch, until it is sent: large amounts wait in a temporary file.

An operator may emit far more than it takes; a join of two hot keys does. The rows are sent only when the work
of the epoch has succeeded, since it may have to be done again without a bad record.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

import polars as pl

from penstock.frames.frame import decode, encode
from penstock.frames.types import of_frame
from penstock.topology.schema import Schema

IN_MEMORY_BYTES = 256 << 20
"""What waits in memory; what is emitted then goes to the file."""
CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 64 << 20
"""What is sent at once."""
Stored = tuple[int, int, Schema]
_NOTHING = pl.DataFrame()


class Emissions:
    """Frames by output, in the order in which they were emitted."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, pl.DataFrame | Stored]] = []
        self._file: IO[bytes] | None = None
        self.nbytes = 0
        """Bytes of memory held."""

    def append(self, output: str, rows: pl.DataFrame) -> None:
        """Add rows of an output."""
        size = int(rows.estimated_size())
        if self.nbytes + size > IN_MEMORY_BYTES:
            self._parts.append((output, self._stored(rows)))
        else:
            self.nbytes += size
            self._parts.append((output, rows))

    def extend(self, others: Iterable[tuple[str, pl.DataFrame]]) -> None:
        """Add rows of several outputs."""
        for output, rows in others:
            self.append(output, rows)

    def __iter__(self) -> Iterator[tuple[str, pl.DataFrame]]:
        for output, part in self._parts:
            yield output, self._loaded(part)

    def chunks(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield the rows, output by output, in chunks of bounded size; forgets what it has yielded."""
        parts, self._parts = self._parts, []
        for output in dict.fromkeys(output for output, _ in parts):
            waiting, count, size = list[pl.DataFrame](), 0, 0
            for place, (name, part) in enumerate(parts):
                if name != output:
                    continue
                rows = self._loaded(part)
                waiting.append(rows)
                count, size = count + rows.height, size + int(rows.estimated_size())
                parts[place] = (output, _NOTHING)
                if count >= CHUNK_ROWS or size >= CHUNK_BYTES:
                    yield output, pl.concat(waiting, rechunk=True)
                    waiting, count, size = [], 0, 0
            if waiting:
                yield output, pl.concat(waiting, rechunk=True)
        self.nbytes = 0

    def _stored(self, rows: pl.DataFrame) -> Stored:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="penstock-emissions-")  # noqa: SIM115 - goes with us
        payload, at = encode(rows), self._file.seek(0, 2)
        self._file.write(payload)
        return at, len(payload), of_frame(rows)

    def _loaded(self, part: pl.DataFrame | Stored) -> pl.DataFrame:
        if isinstance(part, pl.DataFrame):
            return part
        assert self._file is not None
        at, length, schema = part
        self._file.seek(at)
        return decode(self._file.read(length), schema)
