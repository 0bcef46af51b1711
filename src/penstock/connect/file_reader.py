"""Reads pieces of files on the workers."""

from __future__ import annotations

import csv as python_csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connect.blocks import RAW_BYTES, Begin, Block, byte_range, whole_records
from penstock.connect.compression import BrokenStream, codec_of, decompressed
from penstock.connect.expansion import Content
from penstock.connect.file_pieces import Piece
from penstock.connect.parquet_sizes import group_size
from penstock.connect.parsing import Parser, TextLines
from penstock.connect.parsing_access_log import AccessLogLines
from penstock.connect.parsing_csv import CsvRows
from penstock.connect.parsing_json import JsonLines
from penstock.connect.records import count_breaks
from penstock.connect.source import BATCH_BYTES, BATCH_ROWS, BadRecord, Batch, Reject, Split
from penstock.errors import SourceUnavailable
from penstock.frames.types import conform
from penstock.topology.schema import Schema

if TYPE_CHECKING:
    from penstock.connect.files import Files

_ENOUGH_ROWS = 1 << 16
_MOST_BATCH_BYTES = 256 << 20
"""Rows of Parquet are read together only as far as they have no more than this if all are the longest."""
_BOM = b"\xef\xbb\xbf"
_COUNTED_BYTES = 1 << 30  # to say the number of a line, at most this much of a file is read again


def read_pieces(source: Files, split: Split, reject: Reject) -> Iterator[Batch]:
    """The batches of a split, in order. What cannot be read goes to ``reject``."""
    held: list[Batch] = []
    rows = size = 0
    for batch in _each_piece(source, split, reject):
        held.append(batch)
        rows, size = rows + batch.rows.height, size + int(batch.rows.estimated_size())
        if rows >= _ENOUGH_ROWS or size >= BATCH_BYTES:  # few rows may be large
            yield _joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _joined(batches: list[Batch]) -> Batch:
    """Many small files become one batch: every batch costs the same few hundred microseconds later on."""
    rows = pl.concat([batch.rows for batch in batches], rechunk=True) if batches[1:] else batches[0].rows
    return Batch(batches[0].position, rows)


def _each_piece(source: Files, split: Split, reject: Reject) -> Iterator[Batch]:
    for values in split.body["pieces"]:
        piece = Piece(*values)
        if fault := piece.fault(source.missing):
            reject(BadRecord(piece.place(piece.start), Path(piece.path).name, b"", fault))
        elif source.format == "parquet":
            yield from _read_parquet(source.schema, piece, reject)
        else:
            try:
                yield from _LineReader(source, piece, reject).batches()
            except OSError as error:
                raise _unavailable(piece, error) from error


def _unavailable(piece: Piece, error: OSError) -> SourceUnavailable:
    """The disk or a permission: nothing is wrong with the content, so nothing is rejected."""
    step = "make the file readable and run again: the epoch is repeated"
    what = f"the file cannot be read ({error})"
    return SourceUnavailable(source="files", what=what, where=piece.path, next_step=step)


class _LineReader:
    """One piece of a file of lines; bad ones are told with their number."""

    def __init__(self, source: Files, piece: Piece, reject: Reject) -> None:
        self._source = source
        self._piece = piece
        self._reject = reject
        self._codec = codec_of(piece.path, source.compression)
        self._content = Content(piece.path, self._codec, piece.folder) if self._codec else None
        self._counted = (0, 0)  # a place, and the line breaks before it

    def batches(self) -> Iterator[Batch]:
        start, parser = self._begin()
        if parser is None:
            return
        begin = Begin(start, self._piece.inside, counts_breaks=self._content is not None)

        def reject_record(position: int, breaks: int, raw: bytes, reason: str) -> None:
            self._reject_at(position, self._breaks_before(start, position, breaks), raw, reason)

        for block in whole_records(self._chunks(start), begin, parser.quote, reject_record):
            rows = parser.block(block.data, self._rejecter(start, block))
            if rows.height:
                yield Batch(self._piece.place(block.position), rows)

    def _begin(self) -> tuple[int, Parser | None]:
        """Where the records begin, and their parser."""
        source, start = self._source, self._piece.start
        if source.has_header:
            return self._after_header()
        if start == 0 and self._head(len(_BOM)) == _BOM:
            start = len(_BOM)
        if source.format == "jsonl":
            return start, JsonLines(source.schema)
        if source.format == "csv":
            return start, CsvRows(source.schema, source.csv, source.schema.names)
        if source.format == "access-log":
            return start, AccessLogLines(source.schema)
        return start, TextLines()

    def _after_header(self) -> tuple[int, Parser | None]:
        line = self._header_line()
        start = max(self._piece.start, len(line))
        try:
            text = line.removeprefix(_BOM).decode().rstrip("\r\n")
            options = self._source.csv
            fields = next(python_csv.reader([text], delimiter=options.separator, quotechar=options.quote), [])
            fault = _header_fault([name.strip() for name in fields], self._source.schema)
        except (UnicodeDecodeError, python_csv.Error) as error:
            fault, fields = f"the header cannot be read: {error}", []
        if fault is None:
            self._counted = (len(line), 1)
            names = [name.strip() for name in fields]
            return start, CsvRows(self._source.schema, self._source.csv, names)
        if self._piece.start == 0:  # once per file, not once per piece
            self._reject_at(0, 0, line[:RAW_BYTES], f"{fault}; nothing of the file was read")
        return start, None

    def _header_line(self) -> bytes:
        head = b""
        try:
            for chunk in self._all_chunks():
                head += chunk
                if b"\n" in chunk or len(head) > RAW_BYTES:
                    break
        except BrokenStream:
            pass
        return head[: head.find(b"\n") + 1] if b"\n" in head else head

    def _head(self, count: int) -> bytes:
        try:
            return next(self._all_chunks(), b"")[:count]
        except BrokenStream:
            return b""

    def _all_chunks(self) -> Iterator[bytes]:
        if self._codec:
            return decompressed(self._piece.path, self._codec)
        return byte_range(self._piece.path, 0, min(self._piece.size, 2 * RAW_BYTES))

    def _chunks(self, start: int) -> Iterator[bytes]:
        if self._content is None:
            return byte_range(self._piece.path, start, self._piece.end)
        return self._content.chunks(start, self._piece.end)

    def _rejecter(self, start: int, block: Block) -> Callable[[int, bytes, str], None]:
        seen = [0, 0]  # a place in the block and the line breaks before it: bad lines come in order

        def reject(place: int, raw: bytes, reason: str) -> None:
            seen[:] = [place, seen[1] + block.data.count(b"\n", seen[0], place)]
            before = self._breaks_before(start, block.position, block.breaks)
            where = None if before is None else before + seen[1]
            self._reject_at(block.position + place, where, raw, reason)

        return reject

    def _breaks_before(self, start: int, position: int, breaks: int) -> int | None:
        """Line breaks before a place, which only bad records have to tell; None when that is far to count.

        ``breaks`` of them lie between ``start``, where the reading began, and the place in a compressed file.
        """
        counted, count = self._counted
        if self._content is not None:
            if counted < start:
                self._counted = start, self._content.breaks_before(start)
            return self._counted[1] + breaks
        if counted < position:
            if position - counted > _COUNTED_BYTES:
                return None
            count += sum(count_breaks(chunk) for chunk in byte_range(self._piece.path, counted, position))
            self._counted = (position, count)
        return count

    def _reject_at(self, position: int, breaks: int | None, raw: bytes, reason: str) -> None:
        name = Path(self._piece.path).name
        where = f"{name}@byte {position}" if breaks is None else f"{name}:{breaks + 1}"
        self._reject(BadRecord(self._piece.place(position), where, raw, reason))


def _header_fault(names: list[str], schema: Schema) -> str | None:
    if missing := [name for name in schema if name not in names]:
        return f"the header lacks {', '.join(missing)}"
    repeated = [name for name in schema if names.count(name) > 1]
    return f"the header names {repeated[0]} twice" if repeated else None


def _read_parquet(schema: Schema, piece: Piece, reject: Reject) -> Iterator[Batch]:
    def bad(row: int, reason: str) -> None:
        reject(BadRecord(piece.place(row), f"{Path(piece.path).name}:row {row}", b"", reason))

    try:
        with pq.ParquetFile(piece.path, memory_map=True) as file:
            lacking = [name for name in schema if name not in file.schema_arrow.names]
            if lacking:
                bad(piece.start, f"the file lacks the columns {', '.join(lacking)}; nothing of it was read")
                return
            yield from _row_groups(file, schema, piece, bad)
    except PermissionError as error:
        raise _unavailable(piece, error) from error
    except (OSError, pa.ArrowException) as error:
        bad(piece.start, f"not a readable Parquet file: {error}")


def _row_groups(
    file: pq.ParquetFile, schema: Schema, piece: Piece, bad: Callable[[int, str], None]
) -> Iterator[Batch]:
    begin = 0
    for group in range(file.metadata.num_row_groups):
        end = begin + file.metadata.row_group(group).num_rows
        row = begin
        try:
            if begin < piece.end and end > piece.start:
                size = group_size(file, piece.path, group, schema, _MOST_BATCH_BYTES)
                most = max(1, min(BATCH_ROWS, _MOST_BATCH_BYTES // max(1, size.longest)))
                for batch in file.iter_batches(most, row_groups=[group], columns=list(schema.names)):
                    rows = _wanted(batch, row, piece)
                    if rows.height:
                        yield Batch(
                            piece.place(max(row, piece.start)), conform(rows.select(schema.names), schema)
                        )
                    row += batch.num_rows
        except (OSError, pa.ArrowException, ValueError) as error:
            bad(
                max(row, piece.start),
                f"rows {max(row, piece.start)} to {min(end, piece.end)} cannot be read: {error}",
            )
        begin = end


def _wanted(batch: pa.RecordBatch, row: int, piece: Piece) -> pl.DataFrame:
    first, last = max(0, piece.start - row), min(batch.num_rows, piece.end - row)
    return pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch.slice(first, max(0, last - first))])))
