"""Opens captures: what the file is, and a walk that stands at the right place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock.net.capture import HEAD_BYTES, Resume, Walk, read_header
from penstock.net.feeds import BytesFeed, Feed, FileFeed, codec_by_content, open_feed

NOT_A_CAPTURE = "the file begins neither as pcap nor as pcapng; nothing of it was read"
Opened = tuple[Walk, FileFeed | BytesFeed]


class NotACapture(Exception):
    """A file is no capture; ``head`` holds its first bytes."""

    def __init__(self, head: bytes, fault: str | None) -> None:
        super().__init__(fault or NOT_A_CAPTURE)
        self.head = head


@contextmanager
def opened(path: str, *, size: int | None = None, resume: Resume | None = None) -> Iterator[Opened]:
    """A walk through a capture from its beginning, or from where an earlier walk stood.

    ``size`` is how much of the file counts. Raises NotACapture, and OSError if the file cannot be read.
    """
    whole = Path(path).stat().st_size if size is None else size
    with closing(open_feed(path, 0, whole)) as feed:
        walk = _from_start(feed)
        if resume is None or codec_by_content(path) is not None:
            yield walk, feed
            return
    if walk.header.kind == "pcapng":
        with closing(FileFeed(path, resume.section, whole)) as feed:
            walk = Walk(walk.header, feed, base=resume.section)
            for _ in walk.blocks(stop=resume.last_interface + 1):
                pass
    with closing(FileFeed(path, resume.at, whole)) as feed:
        resumed = Walk(walk.header, feed, base=resume.at)
        resumed.knows(walk)
        yield resumed, feed


def _from_start(feed: FileFeed | BytesFeed) -> Walk:
    head = _head(feed)
    header = read_header(head)
    if header is None:
        raise NotACapture(head, getattr(feed, "fault", None))
    return Walk(header, feed, base=0, held=head)


def _head(feed: Feed) -> bytes:
    room = bytearray(HEAD_BYTES)
    filled = 0
    while filled < HEAD_BYTES and (count := feed.readinto(memoryview(room)[filled:])):
        filled += count
    return bytes(room[:filled])
