"""How large the rows of a Parquet file are in memory, which its size on the disk says little about.

A run of equal values costs a few bytes for any number of rows, and a dictionary holds a long text once for
all the rows that refer to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.topology.schema import Schema

_LEAST_WIDTH = 8
_TAIL = 16
"""Where the longest value of a dictionary exceeds the mean by this factor, rows are looked at one by one."""


@dataclass(frozen=True, slots=True)
class GroupSize:
    """One row group in memory: the columns that are read."""

    rows: int
    bytes: int
    longest: int
    """The bytes of a row in which every value is the longest of its column, as far as that is known."""

    @property
    def width(self) -> float:
        """The mean bytes of a row."""
        return max(1.0, self.bytes / max(1, self.rows))


def group_sizes(path: str, schema: Schema, enough: int) -> list[GroupSize]:
    """Measure all row groups of a file."""
    with pq.ParquetFile(path, memory_map=True) as file:
        groups = range(file.metadata.num_row_groups)
        return [group_size(file, path, group, schema, enough) for group in groups]


def group_size(file: pq.ParquetFile, path: str, group: int, schema: Schema, enough: int) -> GroupSize:
    """Measure a row group. One that surely has fewer bytes than ``enough`` is not looked into."""
    meta = file.metadata.row_group(group)
    rows, total, longest = meta.num_rows, 0, 0
    for i in range(meta.num_columns):
        column = meta.column(i)
        if column.path_in_schema.partition(".")[0] not in schema:
            continue
        plain = max(column.total_uncompressed_size, rows * _LEAST_WIDTH)
        most = max(1, plain // max(1, rows))
        if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page:
            if rows * column.total_uncompressed_size > enough:
                found, most = _dictionary_bytes(path, group, column.path_in_schema, rows)
                plain = max(plain, found)
            else:
                most = column.total_uncompressed_size
        total, longest = total + plain, longest + most
    return GroupSize(rows, total, longest)


def _dictionary_bytes(path: str, group: int, column: str, rows: int) -> tuple[int, int]:
    """Return what a column of texts has in memory, and its longest value."""
    with pq.ParquetFile(path, memory_map=True, read_dictionary=[column]) as file:
        first = next(file.iter_batches(1, row_groups=[group], columns=[column]), None)
        if first is None or not pa.types.is_dictionary(first.column(0).type):
            return 0, 0  # texts within lists and structs
        lengths = pc.binary_length(first.column(0).dictionary)
        mean, longest = pc.mean(lengths).as_py() or 0.0, pc.max(lengths).as_py() or 0
        if longest <= _TAIL * max(mean, _LEAST_WIDTH):
            return int(rows * mean), longest
        found = 0
        for batch in file.iter_batches(row_groups=[group], columns=[column]):
            texts = batch.column(0)
            used = pc.binary_length(texts.dictionary).take(texts.indices)
            found += pc.sum(used).as_py() or 0
        return found, longest
