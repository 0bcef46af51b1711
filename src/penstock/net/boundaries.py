"""Where an epoch or a split may end inside of a plain capture: only where a walk finds a good record."""

from __future__ import annotations

from penstock.net.capture import END, Resume
from penstock.net.opening import opened
from penstock.net.pieces import STRETCH_BYTES, CapturePiece


def resume_at(path: str, size: int, position: int) -> Resume:
    """What must be known to go on at a record; walks through a pcapng file up to there."""
    with opened(path, size=size) as (walk, _):
        if walk.header.kind == "pcap":
            return Resume(position)
        for _ in walk.blocks(stop=position):
            pass
        return walk.resume


def cut_capture(
    path: str, size: int, resume: Resume | None, rows: int | None, most_bytes: int | None, *, is_first: bool
) -> tuple[Resume, int]:
    """The end of as many records as fit, and how many there are; at least one if ``is_first``."""
    begin = 0 if resume is None else resume.at
    until = END if most_bytes is None else begin + most_bytes
    count = 0
    with opened(path, size=size, resume=resume) as (walk, _):
        for block in walk.blocks(until=until, most=END if rows is None else rows):
            count += len(block)
        if count == 0 and is_first and walk.resume.at < size:
            for block in walk.blocks(most=1):
                count += len(block)
        if count == 0 and walk.resume.at < size:
            return resume or Resume(0), 0
        return walk.resume, count


def cut_counts(
    path: str, size: int, resume: Resume | None, rows: int | None, most_bytes: int | None, *, is_first: bool
) -> tuple[Resume, int]:
    """The end of as many stretches as fit, and how many packets they hold; at least one if ``is_first``."""
    begin = 0 if resume is None else resume.at
    count, found = 0, resume or Resume(0)
    with opened(path, size=size, resume=resume) as (walk, _):
        while walk.resume.at < size:
            stop = (walk.resume.at // STRETCH_BYTES + 1) * STRETCH_BYTES
            here = sum(len(block) for block in walk.blocks(stop=stop))
            too_much = (rows is not None and count + here > rows) or (
                most_bytes is not None and walk.resume.at - begin > most_bytes
            )
            if too_much and not (is_first and found.at == begin):
                break
            count, found = count + here, walk.resume
            if too_much:
                break
    return found, count


def divide(piece: CapturePiece, parts: int, *, is_counts: bool) -> list[CapturePiece]:
    """A piece in about ``parts`` parts of equal size that begin with a record."""
    start, end = piece.piece.start, piece.piece.end
    cut: list[CapturePiece] = []
    begin = None
    with opened(piece.piece.path, size=piece.piece.size, resume=piece.resume) as (walk, _):
        for i in range(1, parts):
            target = start + (end - start) * i // parts
            if is_counts:
                target = -(-target // STRETCH_BYTES) * STRETCH_BYTES
            for _ in walk.blocks(stop=min(target, end)):
                pass
            here = walk.resume
            if (start if begin is None else begin.at) < here.at < end:
                cut.append(piece.part(begin, here.at))
                begin = here
    return [*cut, piece.part(begin, end)]
