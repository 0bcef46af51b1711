"""Files as Spark writes them to a disk: each has a sidecar with the checksums of its pieces.

The format is Hadoop's (``ChecksumFileSystem``): a header, and a CRC-32 of every so many bytes.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from penstock.connect.sink import write_atomically

_MAGIC = b"crc\x00"
_PIECE_BYTES = 512


def sidecar_of(path: Path) -> Path:
    """Where the checksums of a file are."""
    return path.with_name(f".{path.name}.crc")


def checksums(data: bytes, piece_bytes: int = _PIECE_BYTES) -> bytes:
    """The sidecar of a file with this content."""
    sums = [zlib.crc32(data[i : i + piece_bytes]) for i in range(0, len(data), piece_bytes)]
    return _MAGIC + struct.pack(f">I{len(sums)}I", piece_bytes, *sums)


def write_checked(path: Path, data: bytes) -> None:
    """Put a file in the place of another one, so that Spark takes it for its own at any moment."""
    sidecar_of(path).unlink(missing_ok=True)  # between the two writes there is a file without checksums
    write_atomically(path, data)
    write_atomically(sidecar_of(path), checksums(data))


def fault_of(path: Path) -> str | None:
    """What is wrong with a file that Spark wrote; None if nothing is, or if it has no checksums."""
    try:
        sums = sidecar_of(path).read_bytes()
    except FileNotFoundError:
        return None
    if len(sums) < 8 or sums[:4] != _MAGIC:  # Hadoop goes on without checksums then, and so do we
        return None
    piece_bytes = struct.unpack_from(">I", sums, 4)[0]
    if piece_bytes and checksums(path.read_bytes(), piece_bytes) == sums:
        return None
    return "its checksums do not fit"
