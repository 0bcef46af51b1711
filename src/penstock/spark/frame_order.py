"""The frames of a partition in their order, in memory that does not grow with the partition.

Spark delivers frames in any order. Their headers are small and stay; payloads beyond a budget move to a file
without a name, from which each is read once, when its turn has come.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

BUFFERED_BYTES = 64 << 20
"""Payloads of one task that are kept in memory."""
Offsets = npt.NDArray[np.int64]
_KEY = ("node", "source", "sequence")
_HEADER = (*_KEY, "version", "epoch", "kind")


class FrameOrder:
    """Frames that were added, given out in the order (node, source, sequence) and then as they came."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` is where payloads go that are too many; None: where the system has temporary files."""
        self._folder = folder
        self._headers: list[pa.RecordBatch] = []
        self._payloads: list[_InMemory | _InFile] = []
        self._buffered: list[int] = []
        """Which payloads are in memory."""
        self._bytes = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> FrameOrder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._payloads.clear()
        if self._file is not None:
            self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Take frames. What is kept of their headers shares no memory with the batch."""
        if not batch.num_rows:
            return
        everything = pa.array(np.arange(batch.num_rows))
        self._headers.append(batch.select(list(_HEADER)).take(everything))
        payloads = _InMemory(batch.column("payload"))
        self._payloads.append(payloads)
        self._buffered.append(len(self._payloads) - 1)
        self._bytes += payloads.nbytes
        if self._bytes > BUFFERED_BYTES:
            self._lay_down()

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield the frames in order: some of the header, and the payload, which may be a buffer."""
        if not self._headers:
            return
        table = pa.Table.from_batches(self._headers).combine_chunks()
        self._headers.clear()
        counts = [len(payloads) for payloads in self._payloads]
        owner = np.repeat(np.arange(len(counts)), counts)
        place = np.concatenate([np.arange(count) for count in counts])
        order = pc.sort_indices(
            table.append_column("came", pa.array(np.arange(len(owner)))),
            sort_keys=[(name, "ascending") for name in (*_KEY, "came")],
        )
        for i in order.to_numpy().tolist():
            header = {name: table.column(name)[i].as_py() for name in _HEADER}
            yield {**header, "payload": self._payloads[owner[i]].read(int(place[i]))}

    def _lay_down(self) -> None:
        """Move the payloads in memory to the file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed by __exit__
        for i in self._buffered:
            held = self._payloads[i]
            assert isinstance(held, _InMemory)
            self._payloads[i] = held.moved_to(self._file)
        self._buffered, self._bytes = [], 0


class _InMemory:
    """The payloads of one batch, where Spark has put them."""

    def __init__(self, column: pa.Array) -> None:
        self._column = column
        width = np.int64 if pa.types.is_large_binary(column.type) else np.int32
        _, offsets, self._data = column.buffers()
        offsets = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
        self._offsets: Offsets = offsets.astype(np.int64)
        self.nbytes = int(self._offsets[-1] - self._offsets[0])

    def __len__(self) -> int:
        return len(self._column)

    def read(self, i: int) -> pa.Buffer | None:
        return self._column[i].as_buffer()

    def moved_to(self, file: IO[bytes]) -> _InFile:
        begin, first = file.seek(0, 2), int(self._offsets[0])
        if self.nbytes:
            file.write(memoryview(self._data)[first : first + self.nbytes])
        is_null = self._column.is_null().to_numpy(zero_copy_only=False)
        return _InFile(file, self._offsets - first + begin, is_null)


class _InFile:
    """The payloads of one batch in a file."""

    def __init__(
        self, file: IO[bytes], offsets: npt.NDArray[np.int64], is_null: npt.NDArray[np.bool_]
    ) -> None:
        self._file = file
        self._offsets = offsets
        self._is_null = is_null

    def __len__(self) -> int:
        return len(self._is_null)

    def read(self, i: int) -> pa.Buffer | None:
        if self._is_null[i]:
            return None
        self._file.seek(int(self._offsets[i]))
        return pa.py_buffer(self._file.read(int(self._offsets[i + 1] - self._offsets[i])))
