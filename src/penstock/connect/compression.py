"""Compressed files as streams that give out everything that can be read before a fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa

Compression = Literal["infer", "none", "gzip", "zstd", "bz2"]
_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_CHUNK_BYTES = 1 << 20


class BrokenStream(Exception):
    """The rest of a compressed file cannot be read. Everything before it was given out."""


def codec_of(path: str, compression: str) -> str | None:
    """Return the codec of a file, from its name where that is to decide."""
    if compression == "none":
        return None
    return _CODECS.get(Path(path).suffix.lower()) if compression == "infer" else compression


def decompressed(path: str, codec: str) -> Iterator[bytes]:
    """Yield the content in chunks. Raises BrokenStream after the last byte that could be read."""
    return iter(Unpacking(path, codec))


class Unpacking:
    """A compressed file as its content, in chunks of at most `_CHUNK_BYTES`, however far it expands."""

    def __init__(self, path: str, codec: str) -> None:
        self._path = path
        self._codec = codec
        self.packed = 0
        """Bytes of the file that were read so far."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the content. Raises BrokenStream after the last byte that could be read."""
        good = 0
        try:
            with pa.OSFile(self._path, "rb") as file, pa.CompressedInputStream(file, self._codec) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    good += len(chunk)
                    self.packed = file.tell()
                    yield chunk
        except OSError as error:
            if error.errno is not None:  # the disk, not the content
                raise
            yield from _last_bytes(self._path, self._codec, good)
            raise BrokenStream(str(error)) from error


def _last_bytes(path: str, codec: str, good: int) -> Iterator[bytes]:
    """What lies between the last whole chunk and the fault.

    A failed read loses what it had decompressed, so it is repeated with ever smaller steps.
    """
    size = _CHUNK_BYTES // 2
    while size:
        try:
            with _stream(path, codec) as stream:
                _skip(stream, good)
                while chunk := stream.read(size):
                    good += len(chunk)
                    yield chunk
            return
        except OSError:
            size //= 8 if size >= 8 else 2


def _skip(stream: pa.NativeFile, count: int) -> None:
    while count:
        count -= len(stream.read(min(count, _CHUNK_BYTES)))


def _stream(path: str, codec: str) -> pa.CompressedInputStream:
    return pa.CompressedInputStream(pa.OSFile(path, "rb"), codec)
