"""Reads pieces of captures on the workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from penstock.connect.expansion import TO_END, Content
from penstock.connect.source import BadRecord, Batch, Reject, Split
from penstock.errors import SourceUnavailable
from penstock.net.capture import MOST_PACKED_DAMAGE, Fault, Walk
from penstock.net.counting import Counter
from penstock.net.decoding import decode_block
from penstock.net.feeds import BytesFeed, FileFeed, codec_by_content, read_at
from penstock.net.opening import NotACapture, walked
from penstock.net.pieces import STRETCH_BYTES, CapturePiece

if TYPE_CHECKING:
    from penstock.net.pcap import Pcap

_ENOUGH_ROWS = 1 << 16
_RAW_BYTES = 4096
_GIVEN_UP = f"no packet in {MOST_PACKED_DAMAGE >> 20} MiB of the content; the rest of the file was not read"


def read_pieces(source: Pcap, split: Split, reject: Reject) -> Iterator[Batch]:
    """The batches of a split, in order. What cannot be read goes to ``reject``."""
    held: list[Batch] = []
    for batch in _each_piece(source, split, reject):
        held.append(batch)
        if sum(part.rows.height for part in held) >= _ENOUGH_ROWS:
            yield from _joined(held)
            held = []
    yield from _joined(held)


def _joined(batches: list[Batch]) -> Iterator[Batch]:
    """Small batches become one, as in `connect.file_reader`; bytes of packets are kept within bounds."""
    if batches:
        rows = pl.concat([batch.rows for batch in batches], rechunk=True) if batches[1:] else batches[0].rows
        yield Batch(batches[0].position, rows)


def _each_piece(source: Pcap, split: Split, reject: Reject) -> Iterator[Batch]:
    for values in split.body["pieces"]:
        piece = CapturePiece.from_json(values)
        if fault := piece.piece.fault(source.missing):
            reject(BadRecord(piece.place, Path(piece.piece.path).name, b"", fault))
            continue
        try:
            yield from _PieceReader(source, piece, reject).batches()
        except OSError as error:
            step = "make the file readable and run again: the epoch is repeated"
            what = f"the capture cannot be read ({error})"
            raise SourceUnavailable(
                source="pcap", what=what, where=piece.piece.path, next_step=step
            ) from error


class _PieceReader:
    """One piece of one capture."""

    def __init__(self, source: Pcap, piece: CapturePiece, reject: Reject) -> None:
        self._source = source
        self._piece = piece.piece
        self._resume = piece.resume
        self._reject = reject
        codec = codec_by_content(piece.piece.path)
        self._content = None if codec is None else Content(piece.piece.path, codec, piece.piece.folder)

    def batches(self) -> Iterator[Batch]:
        """The rows, in order."""
        path, size, is_open = self._piece.path, self._piece.size, self._piece.kind == "growing"
        try:
            resume, content = self._resume, self._content
            with walked(path, size=size, resume=resume, is_open=is_open, content=content) as (walk, feed):
                yield from self._counts(walk) if self._source.rows == "counts" else self._packets(walk)
                self._end(walk, feed)
        except NotACapture as error:
            self._bad(0, error.head, str(error))

    def _packets(self, walk: Walk) -> Iterator[Batch]:
        for block in walk.blocks(stop=self._piece.end):
            self._report(block.faults)
            if len(block):
                file = self._piece.path if self._content is None else None
                rows = decode_block(block, self._source.columns, self._source.most_tunnels, file=file)
                yield Batch(self._piece.place(int(block.places[0, 0])), rows)

    def _counts(self, walk: Walk) -> Iterator[Batch]:
        counter = Counter(STRETCH_BYTES, self._source.most_tunnels)
        for faults in counter.count(walk, self._piece.end):
            self._report(faults)
        for place, rows in counter.take():
            yield Batch(self._piece.place(place), rows)

    def _end(self, walk: Walk, feed: FileFeed | BytesFeed | None) -> None:
        if self._piece.end < TO_END:  # whatever the walk has seen behind it is for a later piece to report
            return
        if walk.has_given_up:
            self._bad(walk.resume.at, b"", _GIVEN_UP)
        elif isinstance(feed, BytesFeed) and feed.fault:
            self._bad(walk.resume.at, b"", feed.fault)

    def _report(self, faults: tuple[Fault, ...]) -> None:
        for fault in faults:
            count = min(_RAW_BYTES, fault.end - fault.begin)
            raw = read_at(self._piece.path, fault.begin, count) if self._content is None else b""
            self._bad(fault.begin, raw, f"{fault.reason} ({fault.end - fault.begin} bytes passed over)")

    def _bad(self, place: int, raw: bytes, reason: str) -> None:
        where = f"{Path(self._piece.path).name}@byte {place}"
        self._reject(BadRecord(self._piece.place(place), where, raw, reason))
