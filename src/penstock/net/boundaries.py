"""Where an epoch or a split may end inside of a plain capture: only where a walk finds a good record."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.connect.expansion import Expansion
from penstock.net._index_state import CUT_OFF, MAX_BLOCK, NO_TIME, REASONS
from penstock.net.capture import END, Resume, Walk
from penstock.net.feeds import read_at
from penstock.net.opening import opened, walked
from penstock.net.pieces import STRETCH_BYTES, CapturePiece

_TAIL_BYTES = 256 << 10
_LOOKED_AT = 1_000
"""So many records before the end of an epoch are looked at one by one."""


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
    latest_us: int | None = None
    """Records with a greater time say nothing of the time; None: there are none."""
    content: Expansion | None = None
    """That of a compressed file; its length is not known before."""

    @contextmanager
    def walked(self) -> Iterator[Walk]:
        """Open a walk from the beginning of the stretch."""
        size, resume, content = self.size, self.resume, self.content
        with walked(self.path, size=size, resume=resume, is_open=self.is_open, content=content) as (walk, _):
            yield walk


@dataclass(frozen=True, slots=True)
class Found:
    """Where a walk through a stretch has ended, the records that it passed, and some places on its way."""

    end: Resume
    records: int
    waypoints: tuple[Resume, ...] = ()
    """Good records about `STRETCH_BYTES` apart: `divide` need not walk again from the beginning."""
    time_us: int | None = None
    """The greatest time of the last records before the end, as far as the walk has looked at them."""
    is_end: bool = False
    """The content of a compressed file ends here."""


def cut_capture(stretch: Stretch) -> Found:
    """The end of as many records as fit."""
    size, resume, rows = stretch.size, stretch.resume, stretch.rows
    begin = 0 if resume is None else resume.at
    until = END if stretch.bytes is None else begin + stretch.bytes
    most = END if rows is None else rows
    with stretch.walked() as walk:
        # The last ones are looked at one by one.
        count, waypoints = _hike(walk, until - 2 * MAX_BLOCK, max(0, most - _LOOKED_AT))
        time_ns, latest_ns = NO_TIME, min(END, (stretch.latest_us or END) * 1000)
        for block in walk.blocks(until=until, most=most - count):
            count += len(block)
            moments = block.places[2]
            time_ns = max(time_ns, int(moments[moments <= latest_ns].max(initial=NO_TIME)))
        if count == 0 and stretch.is_first and walk.resume.at < size:
            for block in walk.blocks(most=1):
                count += len(block)
        if count == 0 and walk.resume.at < size and not (walk.is_at_end or walk.is_done):
            return Found(resume or Resume(0), 0)
        time_us = None if time_ns == NO_TIME else time_ns // 1000
        return Found(_end(walk, size), count, waypoints, time_us, walk.is_done)


def _hike(walk: Walk, stop: int, most: int) -> tuple[int, tuple[Resume, ...]]:
    """Pass over at most so many records that begin before a place: how many, and the waypoints."""
    count, here, waypoints = 0, walk.resume.at, list[Resume]()
    while here < stop and count < most:
        count += walk.skip(min(here + STRETCH_BYTES, stop), most=most - count)
        if walk.resume.at == here:
            break
        waypoints.append(walk.resume)
        here = walk.resume.at
    return count, tuple(waypoints)


def cut_counts(stretch: Stretch) -> Found:
    """The end of as many stretches of `STRETCH_BYTES` as fit."""
    size, resume, rows = stretch.size, stretch.resume, stretch.rows
    begin = 0 if resume is None else resume.at
    count, found, waypoints = 0, resume or Resume(0), list[Resume]()
    with stretch.walked() as walk:
        while found.at < size and not walk.is_done:
            stop = (walk.resume.at // STRETCH_BYTES + 1) * STRETCH_BYTES
            here = walk.skip(stop)
            too_much = (rows is not None and count + here > rows) or (
                stretch.bytes is not None and walk.resume.at - begin > stretch.bytes
            )
            if too_much and not (stretch.is_first and found.at == begin):
                break
            count, found = count + here, _end(walk, size)
            waypoints.append(found)
            if too_much:
                break
        is_end = walk.is_done and found.at == walk.resume.at
    return Found(found, count, tuple(waypoints), is_end=is_end)


def _end(walk: Walk, size: int) -> Resume:
    """Where a walk stands; behind everything if all that comes is the beginning of a record."""
    here = walk.resume
    return Resume(size, here.section, here.last_interface) if walk.is_at_end else here


def divide(
    piece: CapturePiece, ends: Sequence[float], step: int, waypoints: Sequence[Resume] = ()
) -> list[CapturePiece]:
    """A piece in parts that begin with a record: the first one behind each of these fractions.

    ``step``: places in the file that are no multiple of it are rounded up.
    """
    p = piece.piece
    cut: list[CapturePiece] = []
    begin, here = None, piece.resume
    for fraction in ends:
        target = p.start + int((p.end - p.start) * fraction)
        target = min(-(-target // step) * step, p.end)
        passed = bisect_right(waypoints, target, key=lambda waypoint: waypoint.at)
        if passed and (here is None or waypoints[passed - 1].at > here.at):
            here = waypoints[passed - 1]
        with walked(p.path, size=p.size, resume=here, is_open=p.kind == "growing") as (walk, _):
            walk.skip(target)
            here = walk.resume
        if (p.start if begin is None else begin.at) < here.at < p.end:
            cut.append(piece.part(begin, here.at))
            begin = here
    return [*cut, piece.part(begin, p.end)]
