"""Where an epoch or a split may end inside of a plain capture: only where a walk finds a good record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.net._index_state import CUT_OFF, MAX_BLOCK, REASONS
from penstock.net.capture import END, Resume, Walk
from penstock.net.feeds import read_at
from penstock.net.opening import opened, walked
from penstock.net.pieces import STRETCH_BYTES, CapturePiece

_TAIL_BYTES = 256 << 10


def resume_at(path: str, size: int, position: int) -> Resume:
    """What must be known to go on at a record; walks through a pcapng file up to there."""
    with opened(path, size=size, is_open=True) as (walk, _):
        if walk.header.kind == "pcap":
            return Resume(position)
        walk.skip(position)
        found = walk.resume
    if found.at != position:  # damage so near the end of the file that an open walk cannot judge it
        with opened(path, size=position) as (walk, _):
            walk.skip()
            found = walk.resume
    return Resume(position, found.section, found.last_interface)


def whole_end(path: str, size: int, resume: Resume | None, *, is_open: bool) -> Resume:
    """The end of the last whole record: where to go on when the file has grown."""
    with opened(path, size=size, resume=resume, is_open=is_open) as (walk, _):
        walk.skip()
        fault, end = walk.last_fault, walk.resume
    if fault is not None and fault.end >= size and fault.reason == REASONS[CUT_OFF]:
        return Resume(fault.begin, end.section, end.last_interface)
    return end


def ends_whole(path: str, size: int) -> bool:
    """Whether a file seems to end with a whole record. Of a large one only the end is read."""
    with opened(path, size=size, is_open=True) as (walk, _):
        if size <= _TAIL_BYTES:
            walk.skip()
            return walk.resume.at == size
        tail = read_at(path, size - _TAIL_BYTES, _TAIL_BYTES)
        return walk.ends_with_records(tail) if walk.header.kind == "pcap" else _ends_with_block(tail)


def _ends_with_block(tail: bytes) -> bool:
    """Whether the last four bytes are the length of a pcapng block, which is also its second field."""
    for order in ("little", "big"):
        length = int.from_bytes(tail[-4:], order)
        if 12 <= length <= len(tail) and tail[-length + 4 : -length + 8] == tail[-4:]:
            return True
    return False


@dataclass(frozen=True, slots=True)
class Stretch:
    """What an epoch may take of a plain capture: from a place on, within limits."""

    path: str
    size: int
    resume: Resume | None
    rows: int | None
    bytes: int | None
    is_first: bool
    """Nothing is taken yet: at least one record, or one stretch, is."""
    is_open: bool


def cut_capture(stretch: Stretch) -> tuple[Resume, int]:
    """The end of as many records as fit, and how many there are."""
    size, resume, rows = stretch.size, stretch.resume, stretch.rows
    begin = 0 if resume is None else resume.at
    until = END if stretch.bytes is None else begin + stretch.bytes
    most = END if rows is None else rows
    with walked(stretch.path, size=size, resume=resume, is_open=stretch.is_open) as (walk, _):
        count = walk.skip(until - 2 * MAX_BLOCK, most=most)  # the last ones are looked at one by one
        for block in walk.blocks(until=until, most=most - count):
            count += len(block)
        if count == 0 and stretch.is_first and walk.resume.at < size:
            for block in walk.blocks(most=1):
                count += len(block)
        if count == 0 and walk.resume.at < size and not walk.is_at_end:
            return resume or Resume(0), 0
        return _end(walk, size), count


def cut_counts(stretch: Stretch) -> tuple[Resume, int]:
    """The end of as many stretches of `STRETCH_BYTES` as fit, and how many packets they hold."""
    size, resume, rows = stretch.size, stretch.resume, stretch.rows
    begin = 0 if resume is None else resume.at
    count, found = 0, resume or Resume(0)
    with walked(stretch.path, size=size, resume=resume, is_open=stretch.is_open) as (walk, _):
        while found.at < size:
            stop = (walk.resume.at // STRETCH_BYTES + 1) * STRETCH_BYTES
            here = walk.skip(stop)
            too_much = (rows is not None and count + here > rows) or (
                stretch.bytes is not None and walk.resume.at - begin > stretch.bytes
            )
            if too_much and not (stretch.is_first and found.at == begin):
                break
            count, found = count + here, _end(walk, size)
            if too_much:
                break
    return found, count


def _end(walk: Walk, size: int) -> Resume:
    """Where a walk stands; behind everything if all that comes is the beginning of a record."""
    here = walk.resume
    return Resume(size, here.section, here.last_interface) if walk.is_at_end else here


def divide(piece: CapturePiece, ends: Sequence[float], step: int) -> list[CapturePiece]:
    """A piece in parts that begin with a record: the first one behind each of these fractions.

    ``step``: places in the file that are no multiple of it are rounded up.
    """
    start, end = piece.piece.start, piece.piece.end
    cut: list[CapturePiece] = []
    begin = None
    is_open = piece.piece.kind == "growing"
    p = piece.piece
    with walked(p.path, size=p.size, resume=piece.resume, is_open=is_open) as (walk, _):
        for fraction in ends:
            target = start + int((end - start) * fraction)
            target = -(-target // step) * step
            walk.skip(min(target, end))
            here = walk.resume
            if (start if begin is None else begin.at) < here.at < end:
                cut.append(piece.part(begin, here.at))
                begin = here
    return [*cut, piece.part(begin, end)]
