"""Opens captures: what the file is, and a walk that stands at the right place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock.connect.expansion import TO_END, Content, Expansion
from penstock.net.capture import END, HEAD_BYTES, MOST_PACKED_DAMAGE, Resume, Walk, read_header
from penstock.net.feeds import BytesFeed, Feed, FileFeed, codec_by_content, mapped

NOT_A_CAPTURE = "the file begins neither as pcap nor as pcapng; nothing of it was read"
Opened = tuple[Walk, FileFeed | BytesFeed]


class NotACapture(Exception):
    """A file is no capture; ``head`` holds its first bytes."""

    def __init__(self, head: bytes, fault: str | None) -> None:
        super().__init__(fault or NOT_A_CAPTURE)
        self.head = head


@contextmanager
def opened(
    path: str,
    *,
    size: int | None = None,
    resume: Resume | None = None,
    is_open: bool = False,
    content: Content | Expansion | None = None,
) -> Iterator[Opened]:
    """A walk through a capture from its beginning, or from where an earlier walk stood.

    ``size`` is how much of the file counts; of an open file, all but a last record that is not whole. Places
    in a compressed file are those of its ``content``, which may be laid down. Raises NotACapture, and OSError
    if the file cannot be read.
    """
    whole = Path(path).stat().st_size if size is None else size
    codec = codec_by_content(path)
    if codec is not None and content is None:
        content = Content(path, codec, folder="")
    most_damage = END if codec is None else MOST_PACKED_DAMAGE

    def feed_at(start: int) -> FileFeed | BytesFeed:
        if content is None:
            return FileFeed(path, start, whole)
        return BytesFeed(content.chunks(start, TO_END))

    with closing(feed_at(0)) as feed:
        walk = _from_start(feed, is_open=is_open, most_damage=most_damage)
        if resume is None:
            yield walk, feed
            return
    if walk.header.kind == "pcapng":
        with closing(feed_at(resume.section)) as feed:
            walk = Walk(walk.header, feed, base=resume.section)
            walk.skip(resume.last_interface + 1)
    with closing(feed_at(resume.at)) as feed:
        resumed = Walk(walk.header, feed, base=resume.at, is_open=is_open, most_damage=most_damage)
        resumed.knows(walk)
        yield resumed, feed


@contextmanager
def walked(
    path: str,
    *,
    size: int,
    resume: Resume | None,
    is_open: bool,
    content: Content | Expansion | None = None,
) -> Iterator[tuple[Walk, FileFeed | BytesFeed | None]]:
    """What `opened` gives; a plain pcap file is not copied but walked through where the system holds it."""
    if content is None and (walk := mapped_walk(path, size, resume, is_open=is_open)):
        yield walk, None
        return
    with opened(path, size=size, resume=resume, is_open=is_open, content=content) as found:
        yield found


def mapped_walk(path: str, size: int, resume: Resume | None, *, is_open: bool) -> Walk | None:
    """A walk through a plain pcap file in memory, where `opened` would begin; None for any other file."""
    if codec_by_content(path) is not None:
        return None
    data = mapped(path, size)
    header = read_header(data[:HEAD_BYTES].tobytes())
    if header is None or header.kind != "pcap":
        return None
    return Walk.over(header, data, header.begin if resume is None else resume.at, is_open=is_open)


def _from_start(feed: FileFeed | BytesFeed, *, is_open: bool, most_damage: int) -> Walk:
    head = _head(feed)
    header = read_header(head)
    if header is None:
        raise NotACapture(head, getattr(feed, "fault", None))
    return Walk(header, feed, base=0, held=head, is_open=is_open, most_damage=most_damage)


def _head(feed: Feed) -> bytes:
    room = bytearray(HEAD_BYTES)
    filled = 0
    while filled < HEAD_BYTES and (count := feed.readinto(memoryview(room)[filled:])):
        filled += count
    return bytes(room[:filled])
